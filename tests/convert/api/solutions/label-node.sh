kubectl label node "$(kubectl get nodes -o jsonpath='{.items[0].metadata.name}')" disktype=ssd
