for i in 1 2 3 4 5; do
  found=$(kubectl get pods -A -o jsonpath='{range .items[?(@.status.phase=="Pending")]}{.metadata.namespace}{"\n"}{end}' | grep '^list-') && break
  sleep 0.2
done
echo "It is in $found."
