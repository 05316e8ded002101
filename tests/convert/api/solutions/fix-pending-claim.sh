kubectl delete pvc homepage-pvc -n fix-pending-pod
kubectl apply -f - <<'YAML'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: homepage-pvc, namespace: fix-pending-pod}
spec: {storageClassName: sc2, accessModes: [ReadWriteOnce], resources: {requests: {storage: 100Mi}}}
YAML
kubectl wait --for=jsonpath='{.status.phase}'=Bound pvc/homepage-pvc -n fix-pending-pod --timeout=30s
