// Package nodeagent is the agent on every compute node: it will make a fresh node fit for work (NVMe, GPU health, data mounts, pre-warm) and give metrics while it lives.
// Nothing of it is built yet.
package nodeagent
