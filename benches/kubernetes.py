#!/usr/bin/env python3
"""Writes the table of Kubernetes' types, `src/bash/tools/kubernetes.types`.

The types are the union of what a running API server publishes and of what the crate k8s-openapi has for newer versions, which is
generated from the same documents. To start a server:

    etcd --data-dir /tmp/etcd &
    kube-apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --cert-dir=/tmp/certs … &
    curl -sk -H 'Authorization: Bearer TOKEN' https://127.0.0.1:6443/openapi/v2 > openapi.json

Then: `benches/kubernetes.py openapi.json ~/.cargo/registry/src/*/k8s-openapi-*/src > src/bash/tools/kubernetes.types`.
"""

import json
import pathlib
import re
import sys
import tomllib

HEAD = """\
# The types of Kubernetes' resources, written by `benches/kubernetes.py` from the OpenAPI documents of Kubernetes 1.20 and 1.33 to 1.37; by hand are
# the kinds of other APIs and the values of texts, after them in that script. Lines are sorted by their first word, so that one is found without
# reading the others. `KIND: TYPE VERSION` names the type of a resource, where `*` in a version stands for the rest. `TYPE: FIELD=TYPE …` lists the
# fields of an object in all versions; `...` means that it may have others. Types are `int`, `num`, `bool`, `str`, `str(A|B)` with all values,
# `quantity` for a text such as `1Gi`, `intstr` for a number or a text, `any`, `[T]` for a list, `{T}` for an object whose keys anybody chooses, and names of other lines.
# `names` are more fields of other APIs, and `quota` are keys of quotas, which must be quoted because of their dots."""

# Kinds and their definitions.
KINDS = """
pod core.v1.Pod; deployment apps.v1.Deployment; replicaset apps.v1.ReplicaSet; statefulset apps.v1.StatefulSet; daemonset apps.v1.DaemonSet;
replicationcontroller core.v1.ReplicationController; job batch.v1.Job; cronjob batch.v1.CronJob; service core.v1.Service;
endpoints core.v1.Endpoints; endpointslice discovery.v1.EndpointSlice; ingress networking.v1.Ingress;
networkpolicy networking.v1.NetworkPolicy; configmap core.v1.ConfigMap; secret core.v1.Secret; serviceaccount core.v1.ServiceAccount;
role rbac.v1.Role; rolebinding rbac.v1.RoleBinding; clusterrole rbac.v1.ClusterRole; clusterrolebinding rbac.v1.ClusterRoleBinding;
persistentvolumeclaim core.v1.PersistentVolumeClaim; resourcequota core.v1.ResourceQuota; limitrange core.v1.LimitRange;
horizontalpodautoscaler autoscaling.v2.HorizontalPodAutoscaler; poddisruptionbudget policy.v1.PodDisruptionBudget; event core.v1.Event;
lease coordination.v1.Lease; controllerrevision apps.v1.ControllerRevision; namespace core.v1.Namespace; node core.v1.Node;
persistentvolume core.v1.PersistentVolume; storageclass storage.v1.StorageClass; priorityclass scheduling.v1.PriorityClass;
ingressclass networking.v1.IngressClass; certificatesigningrequest certificates.v1.CertificateSigningRequest;
runtimeclass node.v1.RuntimeClass; mutatingwebhookconfiguration admissionregistration.v1.MutatingWebhookConfiguration;
validatingwebhookconfiguration admissionregistration.v1.ValidatingWebhookConfiguration
"""

GROUPS = {
    "rbac": "rbac.authorization.k8s.io",
    "networking": "networking.k8s.io",
    "discovery": "discovery.k8s.io",
    "storage": "storage.k8s.io",
    "coordination": "coordination.k8s.io",
    "scheduling": "scheduling.k8s.io",
    "certificates": "certificates.k8s.io",
    "node": "node.k8s.io",
    "admissionregistration": "admissionregistration.k8s.io",
}

# Kinds of other APIs, and types that all resources have.
HAND = """
List: apiVersion=str items=[any] kind=str metadata=ListMeta
ListMeta: continue=str remainingItemCount=int resourceVersion=str selfLink=str
Resource: apiVersion=str kind=str metadata=ObjectMeta ...
customresourcedefinition: CustomResourceDefinition apiextensions.k8s.io/v1
CustomResourceDefinition: apiVersion=str kind=str metadata=ObjectMeta spec=CustomResourceDefinitionSpec status=any
CustomResourceDefinitionSpec: conversion=any group=str names=any preserveUnknownFields=bool scope=str(Cluster|Namespaced) versions=[any]
virtualservice: VirtualService networking.istio.io/*
VirtualService: apiVersion=str kind=str metadata=ObjectMeta spec=VirtualServiceSpec status=any
VirtualServiceSpec: exportTo=[str] gateways=[str] hosts=[str] http=[HTTPRoute] tcp=[any] tls=[any]
HTTPRoute: corsPolicy=any delegate=any directResponse=any fault=HTTPFault headers=any match=[any] mirror=any mirrorPercent=any mirrorPercentage=any mirror_percent=any mirrors=any name=str redirect=any retries=any rewrite=any route=[HTTPRouteDestination] timeout=str
HTTPRouteDestination: destination=HTTPDestination headers=any weight=int
HTTPDestination: host=str port=any subset=str
HTTPFault: abort=HTTPFaultAbort delay=HTTPFaultDelay
HTTPFaultAbort: grpcStatus=any http2Error=any httpStatus=int percentage=any
HTTPFaultDelay: exponentialDelay=any fixedDelay=str percent=any percentage=any
destinationrule: DestinationRule networking.istio.io/*
DestinationRule: apiVersion=str kind=str metadata=ObjectMeta spec=DestinationRuleSpec status=any
DestinationRuleSpec: exportTo=[str] host=str subsets=[DestinationSubset] trafficPolicy=any workloadSelector=any
DestinationSubset: labels={str} name=str trafficPolicy=any
virtualmachine: VirtualMachine kubevirt.io/v1
VirtualMachine: apiVersion=str kind=str metadata=ObjectMeta spec=VirtualMachineSpec status=VirtualMachineStatus
VirtualMachineSpec: dataVolumeTemplates=[any] instancetype=any liveUpdateFeatures=any preference=any runStrategy=str running=bool template=VirtualMachineTemplate updateVolumesStrategy=str
VirtualMachineTemplate: metadata=ObjectMeta spec=any
VirtualMachineStatus: conditions=[Condition] created=bool printableStatus=str(Stopped|Provisioning|Starting|Running|Paused|Stopping|Terminating|CrashLoopBackOff|Migrating|Unknown|ErrorUnschedulable|ErrImagePull|ImagePullBackOff|ErrorPvcNotFound|DataVolumeError|WaitingForVolumeBinding|WaitingForReceiver) ready=bool ...
virtualmachineinstance: VirtualMachineInstance kubevirt.io/v1
VirtualMachineInstance: apiVersion=str kind=str metadata=ObjectMeta spec=any status=VirtualMachineInstanceStatus
VirtualMachineInstanceStatus: conditions=[Condition] interfaces=[any] nodeName=str phase=str(Pending|Scheduling|Scheduled|Running|Succeeded|Failed|Unknown|WaitingForSync) ...
route: Route route.openshift.io/v1
Route: apiVersion=str kind=str metadata=ObjectMeta spec=RouteSpec status=any
RouteSpec: alternateBackends=[RouteTarget] host=str httpHeaders=any path=str port=RoutePort subdomain=str tls=RouteTLS to=RouteTarget wildcardPolicy=str
RouteTarget: kind=str name=str weight=int
RoutePort: targetPort=intstr
RouteTLS: caCertificate=str certificate=str destinationCACertificate=str externalCertificate=any insecureEdgeTerminationPolicy=str key=str termination=str
quota: requests.cpu requests.memory requests.storage requests.ephemeral-storage limits.cpu limits.memory limits.ephemeral-storage services.loadbalancers services.nodeports
"""

# Fields of virtual machines, routes and pipelines that the table has no types for.
NAMES = """
acceptedNames acceptedTypes accessMode additionalItems additionalPrinterColumns additionalProperties adminAccess allNodes allOf
allocatedDevices allocation allocationMode allocationTimestamp allowMultipleAllocations allowed anyOf apiServerID applyConfiguration
attachError attachRequired attached attacher attachmentMetadata attestations attribute attributes audiences auditAnnotations authenticated
available availableDevices beginRefreshAt binaryVersion bindingConditions bindingFailureConditions bindsToNode bools bootloader
borrowingLimitPercent boundObjectRef bridge buildConfig buildDate capacityKey capacityMultiplier categories causes certificateChain
childReferences cidrs clientCIDR cloudInitConfigDrive cloudInitNoCloud clusterScope commonEncodingVersion compatibilityGroups compiler
completed compositePodGroupTemplates constraints consumed consumedCapacity consumesCounters containerDisk controllerRef
conversionReviewVersions cores counterSet counters currentCPUUtilizationPercentage dataVolume decodableVersions
defaultPartitionTypeAttribute definitions deleteOptions denied dependencies deploymentConfig deprecated deprecatedCount
deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource deprecationWarning derivedAttributes detachError details device
deviceClassName deviceMultiplier deviceSelector devices disks displayName distinctAttribute distinguisherMethod domain driverName drivers
dryRun emulationMajor emulationMinor emulationVersion encodingVersion endTimestamp errorCode evaluationError evictionStrategy exactly
example excludeResourceRules exclusiveMaximum exclusiveMinimum exempt expectedCompletionTime expirationTimestamp expressionWarnings
extendedResourceName externalDocs field fieldSelector firmware firstAvailable format freshness fsGroupPolicy fullyAvailableDevices gitCommit
gitTreeState gitVersion goVersion gracePeriodSeconds groupPriorityMinimum groupVersion guest guestOSInfo handSize hardwareAddress
heartbeatTime hugepages ignoreStoreReadErrorWithClusterBreakingPotential imageChange incomplete indications inlineVolumeSpec
insecureSkipTLSVerify intent interfaceName ipAddress ipAddresses jsonPatch jsonPath labelSelectorPath latestVersion leaseName
lendablePercent limit limitResponse limited listKind macAddress machine major masquerade matchAttribute matchConstraints matchResources
matchingPrecedence maxItems maxLength maxProperties maximum maximumVolumeSize memory messageExpression migrationMethod migrationState
minCompatibilityMajor minCompatibilityMinor minGroupCount minItems minLength minProperties minimum minor multipleOf multus mutations
namespaced networkData networkName networks nodeAllocatableResources nodeAllocatableUpdatePeriodSeconds nodeID nodeTopology nodeUID
nominalConcurrencyShares nonResourceAttributes nonResourceRules notAfter notBefore nullable oneOf opaque optionalOldSelf orphanDependents
output parallel paramKind paramRef parameterNotFoundAction params parentCompositePodGroupName parentRef partiallyAvailableDevices
partitionSummary partitionTypeAttribute patchType pattern patternProperties perDeviceNodeSelection persistentVolumeName pingTime pipelineRef
pipelineSpec pkixPublicKey platform plural podGroupTemplates podInfoOnMount podName podUID policyName poolCount poolName pools preconditions
preferredVersion prettyName preventPodSchedulingIfMissing priorityLevelConfiguration progress proofOfPossession propagationPolicy properties
queueLengthLimit queues queuing rawSelector readyToUse regarding replicationController reportingController requestPolicy requester
requesters requirements requiresRepublish reservedFor resourceAttributes resourceRules resourceSliceCount responders responseKind results
retryAfterSeconds routerCanonicalHostname routerName scale schema seLinuxMount selectableFields selectors served servedVersions
serverAddress serverAddressByClientCIDRs serviceAccountTokenInSecrets serviceAccountUID shardInfo shareID shareableSummary sharedCounters
shortNames sidecars singular singularName singularResource skipNodeOperations snapshotContents snapshotInProgress sockets sourceNode
sourceRef specReplicasPath startFailure startTimestamp statusReplicasPath steps storage storageCapacity storageHealth storageVersionHash
storageVersions storedVersions strategyOptions string strings subresources taint targetCPUUtilizationPercentage targetNode targetResponders
taskRef taskRunTemplate taskSpec templateName threads title token tokenRequests total totalDevices triggers trustBundle typeChecking
unavailableDevices uniqueItems unverifiedUserAnnotations userData userInfo validRange validValues validationActions validationError
validations valueExpression variables version versionPriority virtualMachineSnapshotContentName virtualMachineSnapshotName
volumeLifecycleModes volumeRequests warning webhook workloadName workspaces
"""

# All values of a text, by type and field, in addition to those that `kubectl.toml` has by field.
TRUTH = "True False Unknown"
VALUES = {
    "PodStatus.phase": "Pending Running Succeeded Failed Unknown",
    "NamespaceStatus.phase": "Active Terminating",
    "PersistentVolumeClaimStatus.phase": "Pending Bound Lost",
    "PersistentVolumeStatus.phase": "Pending Available Bound Released Failed",
    "ServiceSpec.type": "ClusterIP NodePort LoadBalancer ExternalName",
    "DeploymentStrategy.type": "RollingUpdate Recreate",
    "StatefulSetUpdateStrategy.type": "RollingUpdate OnDelete",
    "DaemonSetUpdateStrategy.type": "RollingUpdate OnDelete",
    "DeploymentCondition.status": TRUTH,
    "PodCondition.status": TRUTH,
    "JobCondition.status": TRUTH,
    "NodeCondition.status": TRUTH,
    "Condition.status": TRUTH,
    "ServicePort.protocol": "TCP UDP SCTP",
    "ContainerPort.protocol": "TCP UDP SCTP",
    "NetworkPolicyPort.protocol": "TCP UDP SCTP",
    "RoleRef.kind": "Role ClusterRole",
    "Subject.kind": "User Group ServiceAccount",
    "Taint.effect": "NoSchedule PreferNoSchedule NoExecute",
    "Toleration.effect": "NoSchedule PreferNoSchedule NoExecute",
    "LabelSelectorRequirement.operator": "In NotIn Exists DoesNotExist",
    "HTTPGetAction.scheme": "HTTP HTTPS",
    "MetricSpec.type": "Resource ContainerResource Pods Object External",
    "MetricTarget.type": "Utilization Value AverageValue",
    "LimitRangeItem.type": "Container Pod PersistentVolumeClaim",
    "Event.type": "Normal Warning",
}


def short(definition):
    return definition.rsplit(".", 1)[-1]


def of_schema(schema):
    """The type in a document of a server, with names of definitions after `#`."""
    if "$ref" in schema:
        return named(schema["$ref"].rsplit("/", 1)[-1])
    match schema.get("type"):
        case "string":
            return "intstr" if schema.get("format") == "int-or-string" else "str"
        case "integer":
            return "int"
        case "number":
            return "num"
        case "boolean":
            return "bool"
        case "array":
            return f"[{of_schema(schema['items'])}]"
        case "object" if "additionalProperties" in schema:
            return "{" + of_schema(schema["additionalProperties"]) + "}"
    return "any"


def named(definition):
    """The type for the name of a definition."""
    last = short(definition)
    if last in ("Time", "MicroTime"):
        return "str"
    if last == "Quantity":
        return "quantity"
    if last == "IntOrString":
        return "intstr"
    if last in ("RawExtension", "FieldsV1", "JSON") or last.startswith("JSONSchema"):
        return "any"
    return "#" + definition


def of_rust(text):
    """The type in the crate."""
    if inner := re.fullmatch(r"Option<(.*)>|std::boxed::Box<(.*)>", text):
        return of_rust(inner[1] or inner[2])
    if inner := re.fullmatch(r"std::vec::Vec<(.*)>", text):
        return f"[{of_rust(inner[1])}]"
    if inner := re.fullmatch(r"std::collections::BTreeMap<std::string::String, (.*)>", text):
        return "{" + of_rust(inner[1]) + "}"
    plain = {"std::string::String": "str", "crate::ByteString": "str", "bool": "bool", "i32": "int", "i64": "int", "f64": "num"}
    if text in plain:
        return plain[text]
    if text.startswith("crate::"):
        return named("io.k8s." + text.removeprefix("crate::").replace("::", "."))
    return "any"


def main():
    document, crate = json.load(open(sys.argv[1])), pathlib.Path(sys.argv[2])
    types = {}
    for definition, schema in document["definitions"].items():
        fields = {name: of_schema(field) for name, field in schema.get("properties", {}).items()}
        types.setdefault(definition, {}).update(fields)
    for file in sorted(crate.glob("v1_*/**/*.rs")):
        text = file.read_text()
        definition = re.match(r"// Generated from definition (\S+)", text)
        struct = re.search(r"^pub struct \w+ \{\n(.*?)^\}", text, re.M | re.S)
        if not definition or not struct:
            continue
        written = dict((b, a) for a, b in re.findall(r'"([^"]+)" => Field::Key_(\w+),', text))
        fields = re.findall(r"^    pub (?:r#)?(\w+): (.*),$", struct[1], re.M)
        own = {written.get(name, name): of_rust(kind) for name, kind in fields}
        if {"metadata", "spec"} & own.keys() or "impl crate::Resource" in text:
            own |= {"apiVersion": "str", "kind": "str"}
        types.setdefault(definition[1], {}).update(own)

    table = tomllib.loads((pathlib.Path(__file__).parent.parent / "src/bash/tools/kubectl.toml").read_text())
    fixed = {field: "|".join(values) for field, values in table["fixed"].items()}
    # Containers have other policies than pods.
    fixed.pop("restartPolicy")
    lines, todo, owners = {}, [], {}

    def own_name(full):
        """A name of its own for a definition: groups have definitions with the same name."""
        name = short(full)
        if owners.setdefault(name, full) != full:
            name = full.split(".")[-3].capitalize() + name
            assert owners.setdefault(name, full) == full, full
        return name

    for entry in KINDS.replace("\n", " ").split(";"):
        kind, definition = entry.split()
        group, version, name = definition.split(".")
        full = f"io.k8s.api.{definition}"
        assert types.get(full), full
        prefix = {"core": ""}.get(group, GROUPS.get(group, group) + "/")
        lines[kind] = f"{name} {prefix}{version}"
        todo.append(full)
    todo += ["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "io.k8s.apimachinery.pkg.apis.meta.v1.Condition"]
    while todo:
        full = todo.pop()
        name, fields = own_name(full), []
        if name in lines:
            continue
        for field, kind in sorted(types.get(full, {}).items()):
            todo += re.findall(r"#([\w.]+)", kind)
            kind = re.sub(r"#([\w.]+)", lambda found: own_name(found[1]), kind)
            values = VALUES.get(f"{name}.{field}", "").replace(" ", "|") or fixed.get(field, "")
            if values and "str" in kind:
                kind = kind.replace("str", f"str({values})")
            if f"{name}.{field}" == "PodSpec.restartPolicy":
                kind = "str(Always|OnFailure|Never)"
            fields.append(f"{field}={kind}")
        lines[name] = " ".join(fields) if fields else "..."
    for line in HAND.strip().splitlines():
        name, rest = line.split(": ", 1)
        lines[name] = rest
    known = {name for rest in lines.values() for name in re.findall(r"(\S+)=", rest)}
    lines["names"] = " ".join(sorted(set(NAMES.split()) - known))
    print(HEAD)
    for name in sorted(lines):
        print(f"{name}: {lines[name]}")


main()
