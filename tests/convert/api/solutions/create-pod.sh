kubectl run web-server --image=nginx -n create-pod-test
