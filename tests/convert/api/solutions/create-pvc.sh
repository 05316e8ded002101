kubectl apply -n pvc-test -f - <<'YAML'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-claim}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  volumes: [{name: data, persistentVolumeClaim: {claimName: data-claim}}]
  containers: [{name: writer, image: busybox, volumeMounts: [{name: data, mountPath: /data}]}]
YAML
