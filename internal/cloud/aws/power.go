package aws

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/midair-hpc/midair/internal/cloud"
)

// batch is how many instances one call ends. EC2 takes 1000 and is throttled
// by the number.
const batch = 500

// Terminate implements cloud.Provider.
func (p *Provider) Terminate(ctx context.Context, ids []string) error {
	return p.onInstances(ctx, "TerminateInstances", ids, func(ctx context.Context, ids []string) error {
		_, err := p.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
		return err
	})
}

// Stop stops instances, or has them hibernate, and returns when EC2 has
// accepted. Ids that are unknown are passed over. Spot instances cannot be
// stopped, and only those hibernate whose launch template says so.
func (p *Provider) Stop(ctx context.Context, ids []string, hibernate bool) error {
	return p.onInstances(ctx, "StopInstances", ids, func(ctx context.Context, ids []string) error {
		_, err := p.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids, Hibernate: awssdk.Bool(hibernate)})
		return err
	})
}

// Start starts stopped instances. EC2 may have no capacity for them: an error
// of class out-of-stock, and none of a batch has been started.
func (p *Provider) Start(ctx context.Context, ids []string) error {
	return p.onInstances(ctx, "StartInstances", ids, func(ctx context.Context, ids []string) error {
		_, err := p.ec2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids})
		return err
	})
}

// onInstances makes calls for instances, a batch at a time. EC2 refuses a whole
// call if it does not know one of the ids, and names those.
func (p *Provider) onInstances(ctx context.Context, action string, ids []string, do func(context.Context, []string) error) error {
	for some := range slices.Chunk(ids, batch) {
		if err := p.onBatch(ctx, action, slices.Clone(some), do); err != nil {
			return err
		}
	}
	return nil
}

// unseenPatience is how often a call is repeated for instances that this
// process has created and EC2 does not find yet.
const unseenPatience = 7

func (p *Provider) onBatch(ctx context.Context, action string, ids []string, do func(context.Context, []string) error) error {
	var unseen []string
	for waits := 0; ; {
		for len(ids) > 0 {
			_, err := read(ctx, p, action, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx, ids) })
			if err == nil {
				break
			}
			if !notFound(err) {
				return fmt.Errorf("%s of provider %s: %w", action, p.name, err)
			}
			unknown := named(err, ids)
			if len(unknown) == 0 {
				return fmt.Errorf("%s of provider %s: EC2 does not say which id it does not know: %w", action, p.name, err)
			}
			for _, id := range unknown {
				if p.isYoung(id) {
					unseen = append(unseen, id)
				}
			}
			ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(unknown, id) })
		}
		if len(unseen) == 0 {
			return nil
		}
		if waits == unseenPatience {
			return &cloud.Error{Class: cloud.Unknown, Ambiguous: true, Message: fmt.Sprintf("EC2 does not find %d new instances yet, such as %s", len(unseen), unseen[0])}
		}
		if err := p.sleep(ctx, p.backoff(waits)); err != nil {
			return p.classify(action, "", err)
		}
		waits++
		ids, unseen = unseen, nil
	}
}

var instanceID = regexp.MustCompile(`i-[0-9a-zA-Z]+`)

// named gives those of ids that an error names.
func named(err error, ids []string) []string {
	text := cause(err)
	found := map[string]bool{}
	for _, id := range instanceID.FindAllString(text, -1) {
		found[id] = true
	}
	var list []string
	for _, id := range ids {
		if found[id] {
			list = append(list, id)
		}
	}
	return list
}

// Console implements cloud.Provider: at most the last 64 KiB. Old types (not on
// Nitro) give only what they had printed some minutes after the boot.
func (p *Provider) Console(ctx context.Context, id string) (string, error) {
	ask := func(latest bool) (*ec2.GetConsoleOutputOutput, error) {
		return read(ctx, p, "GetConsoleOutput", func(ctx context.Context) (*ec2.GetConsoleOutputOutput, error) {
			return p.ec2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: awssdk.String(id), Latest: awssdk.Bool(latest)})
		})
	}
	out, err := ask(true)
	if code(err) == "UnsupportedOperation" {
		out, err = ask(false)
	}
	switch {
	case notFound(err):
		return "", nil
	case err != nil:
		return "", err
	}
	text, err := base64.StdEncoding.DecodeString(awssdk.ToString(out.Output))
	if err != nil {
		return "", &cloud.Error{Class: cloud.Unknown, Message: "the console of " + id + " is not readable", Err: err}
	}
	return string(text), nil
}
