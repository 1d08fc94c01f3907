echo "$(ls | wc -l) files in the workdir on node $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES"
