#!/usr/bin/env bash
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
. "$here/lib.sh"

assert_path service cache '{.spec.clusterIP}' None
assert_path service cache '{.spec.ports[0].port}' 6379
assert_path statefulset cache '{.spec.serviceName}' cache
assert_path statefulset cache '{.spec.replicas}' 2
assert_path statefulset cache '{.spec.template.spec.containers[?(@.name=="redis")].image}' redis:7-alpine
assert_path statefulset cache '{.spec.template.spec.containers[?(@.name=="redis")].volumeMounts[?(@.name=="data")].mountPath}' /data

kubectl rollout status statefulset/cache -n "$NS" --timeout=180s || die "the pods are not ready"

for ordinal in 0 1; do
  claim="data-cache-${ordinal}"
  assert_path pvc "$claim" '{.status.phase}' Bound
  assert_path pvc "$claim" '{.spec.resources.requests.storage}' 64Mi
  assert_path pvc "$claim" '{.spec.accessModes[0]}' ReadWriteOnce
  reply=""
  for attempt in {1..5}; do
    reply="$(kubectl exec "cache-${ordinal}" -n "$NS" -c redis -- redis-cli ping || true)"
    [[ "$reply" == PONG ]] && break
    echo "cache-${ordinal}: no answer to attempt ${attempt}"
    sleep 2
  done
  [[ "$reply" == PONG ]] || die "cache-${ordinal} answers '$reply'"
done
echo "the cache is up"
