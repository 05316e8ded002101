kubectl create namespace team-blue
kubectl label namespace team-blue team=blue
