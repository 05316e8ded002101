# Shared by tasks.

fresh_namespace() {
  local ns="$1"
  kubectl delete namespace "$ns" --ignore-not-found --timeout=60s
  kubectl create namespace "$ns"
}

object_exists() {
  local kind="$1" name="$2" ns="$3"
  if kubectl get "$kind" "$name" -n "$ns" &>/dev/null; then
    echo "✓ $kind/$name exists"
    return 0
  fi
  echo "✗ $kind/$name not found in $ns"
  return 1
}
