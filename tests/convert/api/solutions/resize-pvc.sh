kubectl patch pvc storage-pvc -n resize-pv -p '{"spec": {"resources": {"requests": {"storage": "15Gi"}}}}'
