package demo

// The demo's configurations: one on-premises partition, one on-demand pool and
// one spot pool. Their times are a demo's; docs/install.md has a site's.
const localYAML = `cluster: lab
providers:
  laptop:
    kind: local
    boot_delay: 2s
    types:
      g1.small: {cpus: 4, memory: 1G, gpus: 1, prices: {on-demand: 1.20 USD, spot: 0.40 USD}}
      g2.small: {cpus: 4, memory: 1G, gpus: 1, prices: {on-demand: 1.50 USD, spot: 0.55 USD}}
pools:
  - name: gpu-od
    nodes: gpu-od-[1-4]
    provider: laptop
    node: {cpus: 4, memory: 1000M, gres: "gpu:1", features: [a]}
    offerings:
      - {types: [g1.small], zones: [zone-a], markets: [on-demand]}
    suspend_time: 8s
    resume_timeout: 60s
    suspend_timeout: 3s
  - name: gpu-spot
    nodes: gpu-spot-[1-6]
    provider: laptop
    node: {cpus: 4, memory: 1000M, gres: "gpu:1", features: [a]}
    offerings:
      - {types: [g1.small, g2.small], zones: [zone-a, zone-b], markets: [spot]}
    suspend_time: 8s
    resume_timeout: 60s
    suspend_timeout: 3s
` + rest

// rest is the same for every cloud.
const rest = `tiers:
  - {name: p0, qos: [p0], partitions: [onprem]}
  - {name: p1, qos: [p1], partitions: [onprem, gpu-od]}
  - {name: p2, qos: [p2], partitions: [onprem, gpu-spot]}
retry: {first: 1s, max: 5m, rounds: 3}
capacity_memory: {first: 30s, max: 10m}
reconcile: {every: 5s, grace: 15s}
`

// simYAML sells one offering per list entry, so that each is asked for by
// itself and the story can show which had nothing left.
const simYAML = `cluster: lab
providers:
  aws:
    kind: aws
    region: us-east-1
    endpoint: ` + simURL + `
    credentials_file: ` + simCredentials + `
    launch_template: midair
    subnets: {us-east-1a: subnet-0a1b2c3d4e5f6000a, us-east-1b: subnet-0a1b2c3d4e5f6000b}
pools:
  - name: gpu-od
    nodes: gpu-od-[1-4]
    provider: aws
    node: {cpus: 4, memory: 1000M, gres: "gpu:1", features: [a]}
    offerings:
      - {types: [g5.xlarge], zones: [us-east-1a], markets: [on-demand]}
    suspend_time: 8s
    resume_timeout: 60s
    suspend_timeout: 3s
  - name: gpu-spot
    nodes: gpu-spot-[1-6]
    provider: aws
    node: {cpus: 4, memory: 1000M, gres: "gpu:1", features: [a]}
    offerings:
      - {types: [g5.xlarge], zones: [us-east-1a], markets: [spot]}
      - {types: [g6.xlarge], zones: [us-east-1a, us-east-1b], markets: [spot]}
    suspend_time: 8s
    resume_timeout: 60s
    suspend_timeout: 3s
` + rest
