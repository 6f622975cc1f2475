#!/bin/sh
# Compile hello_mpi.c on each machine, once, and run it in every rank there: boards may differ in what they can run.
#
#   jetq gang --nodes 4 --launcher mpirun --workdir examples/mpi -- sh hello.sh
#   mpirun -np 4 sh hello.sh
#
# The first rank of a machine compiles; the others wait until the program is there. It gets its name in one step, so
# nobody starts half of it, and that name is this job's alone. If the compiler fails, mpirun ends all.
set -eu
source=$(dirname "$0")/hello_mpi.c
program=./hello_mpi.$(uname -n).${PMIX_NAMESPACE:?start me by mpirun}

if [ "$OMPI_COMM_WORLD_LOCAL_RANK" = 0 ]; then
    trap 'rm -f "$program" "$program.part"' EXIT
    mpicc -O2 -o "$program.part" "$source"
    mv "$program.part" "$program"
    "$program"
else
    tries=0
    until [ -x "$program" ]; do
        tries=$((tries + 1))
        [ $tries -le 600 ] || { echo "hello.sh: nothing was compiled within 60 s" >&2; exit 1; }
        sleep 0.1
    done
    exec "$program"
fi
