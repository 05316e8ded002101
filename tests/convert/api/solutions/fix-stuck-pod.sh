kubectl patch pod stuck -n wait-gone --type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'
