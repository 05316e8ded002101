kubectl apply -n ds-test -f - <<'YAML'
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log-collector}
spec:
  selector: {matchLabels: {app: logs}}
  template:
    metadata: {labels: {app: logs}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: fluentd, image: "fluent/fluentd:v1.16"}]
YAML
