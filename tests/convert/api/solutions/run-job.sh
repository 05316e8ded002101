kubectl apply -f - <<'YAML'
apiVersion: batch/v1
kind: Job
metadata: {name: pi, namespace: job-test}
spec:
  completions: 2
  template: {spec: {restartPolicy: Never, containers: [{name: pi, image: perl, command: [perl, -e, "1"]}]}}
YAML
kubectl wait --for=condition=complete job/pi -n job-test --timeout=30s
