kubectl scale deployment engine-v1-0 --replicas=1 -n canary-test
kubectl scale deployment engine-v1-1 --replicas=1 -n canary-test
kubectl rollout status deployment/engine-v1-1 -n canary-test --timeout=30s
