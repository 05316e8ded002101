kubectl apply -f - <<'YAML'
apiVersion: v1
kind: Service
metadata: {name: db, namespace: stateful-test}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 6379}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: stateful-test}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: redis, image: "redis:7"}]}
YAML
kubectl rollout status statefulset/db -n stateful-test --timeout=30s
