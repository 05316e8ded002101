kubectl create configmap app-config -n config-test --from-literal=LOG_LEVEL=debug --from-literal=app.properties=color=blue
