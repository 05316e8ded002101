# Old clusters have cron jobs in a beta version.
version=$(kubectl api-resources --api-group=batch --no-headers | awk '$NF == "CronJob" {print $(NF - 2)}')
kubectl apply -n cron-test -f - <<YAML
apiVersion: $version
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  concurrencyPolicy: Forbid
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: nightly, image: busybox, command: [date]}]}}}}
YAML
