kubectl create secret generic db-credentials -n secret-test --from-literal=username=admin --from-literal=password=s3cret
