# Each group that lives is a variable: a list of ten thousand would be copied for each of them.
trap '' HUP INT TERM

while read -r what group; do
  case $group in '' | *[!0-9]*) continue ;; esac
  case $what in
    +) eval "group_$group=lives" ;;
    -) unset "group_$group" ;;
  esac
done

# Those of the groups that still have somebody.
living() {
  for group; do
    if kill -s 0 -- "-$group"; then echo "$group"; fi
  done
}

# signal SIGNAL GROUP...
signal() {
  signal=$1
  shift
  for group; do
    kill -s "$signal" -- "-$group"
  done
}

# wait_for SECONDS: for the groups to go.
wait_for() {
  left=$1
  groups=$(living $groups)
  while [ -n "$groups" ] && [ "$left" -gt 0 ]; do
    sleep 1
    left=$((left - 1))
    groups=$(living $groups)
  done
}

groups=$(
  for line in $(set); do
    case $line in
      group_*=*lives*)
        line=${line%%=*}
        echo "${line#group_}"
        ;;
    esac
  done
)
wait_for 4
signal TERM $groups
wait_for 2
signal KILL $groups
