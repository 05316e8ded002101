kubectl patch deployment app -n crashloop-test --type=json -p '[{"op": "remove", "path": "/spec/template/spec/containers/0/command"}]'
kubectl rollout status deployment/app -n crashloop-test --timeout=30s
# the old pod is on its way
for i in {1..50}; do
  [ "$(kubectl get pods -n crashloop-test -l app=nginx --no-headers | wc -l)" = 1 ] && break
  sleep 0.2
done
