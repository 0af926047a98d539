// Package ec2sim is a stand-in for the parts of AWS that midair uses: EC2's
// query protocol over HTTP, with Service Quotas, the price list and STS at the
// same base URL. It sells from a catalogue of types, zones, subnets, prices,
// capacity and quotas, keeps EC2's promises (client tokens, tags in the create
// call, partial fleets), breaks what EC2 breaks (eventual consistency, spot
// interruptions, capacity errors) and fails on demand (see Fault).
//
// What it checks of a request: that it is one that EC2 takes (a parameter that
// EC2 does not know is an error), and who asks, by the signature. What it does
// not have: networking, images, volumes, and IAM beyond actions that are denied
// by name.
//
// Codes, messages and HTTP statuses are EC2's where they are documented or have
// been reported; code.go lists them.
package ec2sim
