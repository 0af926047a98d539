package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
)

// tagDigest tells requests apart that share a token by mistake. Every create
// call carries it, so that EC2 itself refuses the second one.
const tagDigest = "midair:request"

// tagName is what EC2's console shows.
const tagName = "Name"

// maxTagValue is EC2's limit in characters.
const maxTagValue = 256

// cut shortens a text to what a tag holds.
func cut(s string) string {
	r := []rune(s)
	if len(r) <= maxTagValue {
		return s
	}
	return string(r[:maxTagValue-1]) + "…"
}

// createTags gives the tags that all instances of a request share, and the
// request's digest. For one node that is all tags.
func createTags(r cloud.LaunchRequest) (map[string]string, string) {
	tags := map[string]string{}
	names := make([]string, 0, len(r.Nodes))
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", r.Cluster, r.Pool)
	for _, f := range r.Offerings {
		fmt.Fprintf(h, "%q\n", f.Key())
	}
	for k, n := range r.Nodes {
		names = append(names, n.Name)
		fmt.Fprintf(h, "%q %d %q\n", n.Name, n.Generation, n.Launch)
		own := ownTags(n)
		if k == 0 {
			maps.Copy(tags, own)
			continue
		}
		for key, v := range tags {
			if own[key] != v {
				delete(tags, key)
			}
		}
	}
	digest := hex.EncodeToString(h.Sum(nil))[:32]
	tags[cloud.TagCluster], tags[cloud.TagPool], tags[cloud.TagToken] = r.Cluster, r.Pool, cut(r.Token)
	tags[cloud.TagNodes], tags[tagDigest] = cut(hostlist.FoldSorted(names)), digest
	return tags, digest
}

// ownTags gives the tags of one node.
func ownTags(n cloud.NodeRequest) map[string]string {
	tags := map[string]string{}
	for k, v := range n.Tags {
		tags[k] = cut(v)
	}
	tags[tagName], tags[cloud.TagNode], tags[cloud.TagGeneration], tags[cloud.TagLaunch] = cut(n.Name), cut(n.Name), strconv.Itoa(n.Generation), cut(n.Launch)
	return tags
}

// nodeTags gives all tags that a node's instance comes to have.
func nodeTags(shared map[string]string, r cloud.LaunchRequest, n cloud.NodeRequest) map[string]string {
	tags := maps.Clone(shared)
	maps.Copy(tags, ownTags(n))
	return tags
}

func tagList(tags map[string]string) []types.Tag {
	list := make([]types.Tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: awssdk.String(k), Value: awssdk.String(tags[k])})
	}
	return list
}

// tagSpecs puts tags onto what a create call makes. A fleet's disks and
// interfaces take their tags from the launch template.
func tagSpecs(tags map[string]string, resources ...types.ResourceType) []types.TagSpecification {
	var specs []types.TagSpecification
	for _, r := range resources {
		specs = append(specs, types.TagSpecification{ResourceType: r, Tags: tagList(tags)})
	}
	return specs
}

// namers is how many CreateTags calls are made side by side; the rate is
// limited beside that.
const namers = 8

// Name implements cloud.Provider. Tags that instances share go into one call,
// but each node's name needs one of its own; EC2 takes about ten a second. An
// instance that has ended is passed over.
func (p *Provider) Name(ctx context.Context, instances []cloud.Instance) error {
	var g errgroup.Group
	g.SetLimit(namers)
	errs := make([]error, len(instances))
	for k, i := range instances {
		if i.ID == "" || i.Node == "" {
			continue
		}
		g.Go(func() error {
			errs[k] = p.nameOne(ctx, i)
			return nil
		})
	}
	_ = g.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("name instances of provider %s: %w", p.name, err)
	}
	return nil
}

// hasEnded reports whether EC2 shows an instance as ended.
func (p *Provider) hasEnded(ctx context.Context, id string) bool {
	list, err := p.describe(ctx, filter("instance-id", id))
	return err == nil && len(list) == 1 && !list[0].EndedAt.IsZero()
}

// namePatience is how often a name is tried on an instance that EC2 does not
// find yet.
const namePatience = 8

func (p *Provider) nameOne(ctx context.Context, i cloud.Instance) error {
	n := cloud.NodeRequest{Name: i.Node, Generation: i.Generation, Launch: i.Launch, Tags: map[string]string{}}
	for k, v := range i.Tags {
		// What the create call has said does not change.
		if !strings.HasPrefix(k, "aws:") && k != cloud.TagCluster && k != cloud.TagPool && k != cloud.TagToken && k != cloud.TagNodes && k != tagDigest {
			n.Tags[k] = v
		}
	}
	in := &ec2.CreateTagsInput{Resources: []string{i.ID}, Tags: tagList(ownTags(n))}
	if p.bornNamed(i.ID) {
		return nil
	}
	for try := 0; ; try++ {
		_, err := read(ctx, p, "CreateTags", func(ctx context.Context) (*ec2.CreateTagsOutput, error) { return p.ec2.CreateTags(ctx, in) })
		switch {
		case err == nil:
			return nil
		case !notFound(err):
			return fmt.Errorf("instance %s, node %s: %w", i.ID, i.Node, err)
		case !p.isYoung(i.ID) && p.now().Sub(i.CreatedAt) > youngFor:
			return nil
		case try >= 2 && p.hasEnded(ctx, i.ID):
			return nil
		case try == namePatience:
			return fmt.Errorf("instance %s, node %s: EC2 does not find it: %w", i.ID, i.Node, err)
		}
		if err := p.sleep(ctx, p.backoff(try)); err != nil {
			return err
		}
	}
}
