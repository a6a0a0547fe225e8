from muster_client import MusterSync, Phase

with MusterSync() as muster:
    for workload in muster.list(project="vision", phases=[Phase.COMPLETED]):
        print(workload.name)
    pools = [pool.name for pool in muster.each(lambda m: m.node_pools.list())]
