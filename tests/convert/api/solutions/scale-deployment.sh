kubectl scale deployment web-app -n scale-test --replicas=2
kubectl rollout status deployment/web-app -n scale-test --timeout=30s
