// Package checkpointd is reclaim notices on every compute node: it will save a checkpoint, commit it to object storage, requeue the job and restore it.
// Nothing of it is built yet.
package checkpointd
