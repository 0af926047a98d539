// Package aws buys instances on EC2. It is the only package that speaks to AWS
// about machines.
//
// How a request becomes a create call:
//
//   - one offering, all or nothing: RunInstances with MinCount = MaxCount, which
//     is EC2's own promise
//   - several offerings, all or nothing: CreateFleet of type instant with a
//     minimum as large as the target, from one type in one zone
//   - anything else on the markets spot and on-demand: CreateFleet of type
//     instant over all types × subnets, best effort
//   - market reserved: RunInstances aimed at the Capacity Reservation or the
//     capacity block that midair.yaml names
//
// Every create call carries the request's token as its client token, so that a
// repeat is the same call to EC2, and the tags that all its instances share.
// Among them is a digest of the request: a token that comes with other nodes is
// refused by EC2 itself, since its parameters differ. What differs from node to
// node is written by Name.
//
// Which instance becomes which node follows from sorted instance ids and the
// request's order of nodes, so that a repeat gives the same.
//
// EC2 is eventually consistent: what was just created is not to be found for
// some seconds, and has no address for some more. Launch waits for that, but
// not for long; Terminate does not take "not found" for an answer where this
// process has created the instance itself.
//
// The SDK's own retries are off. It would ask an empty pool three times (EC2
// answers a shortage with status 500). Calls that change nothing are repeated
// here, with backoff, jitter and one limit of the rate for each action.
//
// Every code that EC2 answers with is in codes.go, with the class of failure
// that it means.
package aws
