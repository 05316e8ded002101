kubectl apply -f - <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: communication-pod, namespace: multi-container-logging}
spec:
  volumes: [{name: logs-volume, emptyDir: {}}]
  containers:
  - {name: web-server, image: nginx, volumeMounts: [{name: logs-volume, mountPath: /var/log/nginx}]}
  - {name: logger, image: busybox, command: [sleep, infinity], volumeMounts: [{name: logs-volume, mountPath: /logs}]}
YAML
