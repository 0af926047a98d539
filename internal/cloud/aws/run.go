package aws

import (
	"context"
	"fmt"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
)

// place is where one RunInstances call buys: RunInstances takes one subnet and
// one reservation.
type place struct {
	offering    cloud.Offering
	subnet      string
	reservation *config.Reservation // with market reserved
}

// run buys with RunInstances: place by place, each with a client token of its
// own, until all nodes have an instance. Only market reserved has several
// offerings here.
func (p *Provider) run(ctx context.Context, o *order) (bought, error) {
	places, err := p.places(o)
	if err != nil {
		return bought{}, err
	}
	b := bought{ids: map[string]cloud.Offering{}, said: map[string]cloud.Instance{}}
	if len(places) > 1 {
		// A place that had no room at the first call may have some now, so what
		// a later place has given must be found before.
		before, err := p.tokenInstances(ctx, o)
		if err != nil {
			return b, err
		}
		if len(before) > 0 {
			return p.boughtBefore(ctx, o, &cloud.Error{Class: cloud.Config, Code: "IdempotentParameterMismatch", Message: codes["IdempotentParameterMismatch"].says})
		}
	}
	left := len(o.Nodes)
	var short []cloud.Shortfall
	for k, pl := range places {
		if left == 0 {
			break
		}
		out, err := p.runInstances(ctx, o, pl, left, clientToken(o.Token, k))
		if err != nil {
			e := p.classify("RunInstances", pl.offering.Key(), err)
			if !definiteShortage(e) {
				return b, e
			}
			short = append(short, cloud.Shortfall{Offering: pl.offering, Nodes: left, Err: e})
			if pl.reservation == nil && e.Code != "InsufficientFreeAddressesInSubnet" {
				break // another subnet of the zone has no other stock
			}
			continue
		}
		given := 0
		for _, x := range out.Instances {
			i, err := p.instance(x)
			if err != nil {
				p.log.Warn("leave out an odd item in the answer to RunInstances; the next list shows it", "token", o.Token, "err", err)
				continue
			}
			if o.market != cloud.Reserved && i.Offering != pl.offering {
				p.log.Warn("EC2 gave another offering than was asked for", "asked", pl.offering, "given", i.Offering)
			}
			b.ids[i.ID], b.said[i.ID] = pl.offering, i
			given++
		}
		if left -= given; left > 0 {
			short = append(short, p.shortfall(pl.offering, left, "RunInstances", shortOn(pl), ""))
		}
	}
	b.shortfalls = worst(short)
	return b, nil
}

// shortOn is the code for a place that gave a part and did not say why.
func shortOn(pl place) string {
	if pl.reservation != nil {
		return "ReservationCapacityExceeded"
	}
	return "InsufficientInstanceCapacity"
}

// worst keeps one shortfall for each offering: the last, which says how many
// nodes it left in the end.
func worst(list []cloud.Shortfall) []cloud.Shortfall {
	var kept []cloud.Shortfall
	for k, s := range list {
		if !slices.ContainsFunc(list[k+1:], func(o cloud.Shortfall) bool { return o.Offering == s.Offering }) {
			kept = append(kept, s)
		}
	}
	return kept
}

// definiteShortage reports whether a refusal is of the offering and not of the
// request.
func definiteShortage(e *cloud.Error) bool {
	return !e.Ambiguous && (e.Class == cloud.OutOfStock || e.Class == cloud.Quota || e.Class == cloud.SpecMismatch)
}

// places lists where an order may be bought.
func (p *Provider) places(o *order) ([]place, error) {
	var all []place
	for _, f := range o.offerings {
		if o.market != cloud.Reserved {
			for _, s := range o.subnets[f.Zone] {
				all = append(all, place{offering: f, subnet: s})
			}
			continue
		}
		before := len(all)
		for k := range p.conf.Reservations {
			r := &p.conf.Reservations[k]
			if r.Type != f.Type || r.Zone != f.Zone {
				continue
			}
			for _, s := range o.subnets[f.Zone] {
				all = append(all, place{f, s, r})
			}
		}
		if len(all) == before {
			return nil, &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("provider %s lists no reservation of %s in zone %s under reservations in midair.yaml", p.name, f.Type, f.Zone)}
		}
	}
	return all, nil
}

func (p *Provider) runInstances(ctx context.Context, o *order, pl place, n int, token string) (*ec2.RunInstancesOutput, error) {
	in := runInput(o, pl, n, token)
	out, e := once(ctx, p, "RunInstances", 0, func(ctx context.Context) (*ec2.RunInstancesOutput, error) { return p.ec2.RunInstances(ctx, in) })
	if e != nil {
		return nil, p.about(e, "RunInstances", pl.offering)
	}
	return out, nil
}

// about says a refused call's error anew with the offering in its sentence.
func (p *Provider) about(e *cloud.Error, action string, f cloud.Offering) *cloud.Error {
	if e.Code == "" || e.Err == nil {
		return e
	}
	return p.classify(action, f.Key(), e.Err)
}

func runInput(o *order, pl place, n int, token string) *ec2.RunInstancesInput {
	least := n
	if !o.AllOrNothing {
		least = 1
	}
	in := &ec2.RunInstancesInput{
		MinCount: awssdk.Int32(int32(least)), MaxCount: awssdk.Int32(int32(n)), ClientToken: awssdk.String(token),
		InstanceType: types.InstanceType(pl.offering.Type), LaunchTemplate: o.template.ref.forRun(),
		TagSpecifications: tagSpecs(o.tags, types.ResourceTypeInstance, types.ResourceTypeVolume),
	}
	if len(o.template.data.NetworkInterfaces) > 0 {
		in.NetworkInterfaces = o.template.interfaces(pl.subnet)
	} else {
		in.SubnetId = awssdk.String(pl.subnet)
	}
	switch o.market {
	case cloud.Spot:
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot, SpotOptions: &types.SpotMarketOptions{
			SpotInstanceType: types.SpotInstanceTypeOneTime, InstanceInterruptionBehavior: types.InstanceInterruptionBehaviorTerminate,
		}}
	case cloud.Reserved:
		in.CapacityReservationSpecification = &types.CapacityReservationSpecification{
			CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: awssdk.String(pl.reservation.ID)},
		}
		if pl.reservation.Block {
			in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock}
		}
	}
	return in
}
