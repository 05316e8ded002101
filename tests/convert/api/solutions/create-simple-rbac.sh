kubectl create role pod-reader --verb=get,list --resource=pods -n create-simple-rbac
kubectl create rolebinding pod-readers --role=pod-reader --serviceaccount=create-simple-rbac:reader-sa -n create-simple-rbac
