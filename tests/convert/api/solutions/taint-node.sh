kubectl taint node "$(kubectl get nodes -o jsonpath='{.items[1].metadata.name}')" dedicated=gpu:NoSchedule
