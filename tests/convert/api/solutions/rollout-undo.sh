kubectl rollout undo deployment/web -n undo-test
kubectl rollout status deployment/web -n undo-test --timeout=30s
