kubectl create quota compute -n quota-test --hard=pods=4,requests.cpu=2
