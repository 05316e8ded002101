kubectl create clusterrole node-viewer-eval --verb=get,list --resource=nodes
kubectl create clusterrolebinding node-viewer-eval --clusterrole=node-viewer-eval --group=ops
