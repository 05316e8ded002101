kubectl apply -f - <<'YAML'
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: np, namespace: netpol-ns1}
spec:
  podSelector: {}
  policyTypes: [Egress]
  egress:
  - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: netpol-ns2}}}]
  - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
YAML
