kubectl delete pods -l app=legacy -n delete-test
