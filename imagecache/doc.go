// Package imagecache is container images on every compute node: it will pull, pin, bundle for srun --container and evict.
// Nothing of it is built yet.
package imagecache
