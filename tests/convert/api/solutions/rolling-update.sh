kubectl set image deployment/web-app nginx=nginx:1.27 -n rollout-test
kubectl rollout status deployment/web-app -n rollout-test --timeout=60s
