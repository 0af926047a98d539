package controller

// CrashPoints names every place between two journal steps, in about the order
// a launch passes them. Ending the process at any of them must lose nothing
// and leak nothing; the end-to-end tests try each.
var CrashPoints = []string{
	"request-read",         // a spool record is read, nothing is recorded
	"launch-planned",       // launches are in the ledger, the record is still in the spool
	"request-removed",      // the record is gone
	"intent-committed",     // the create call is on record, not made
	"call-returned",        // the cloud has answered, the answer is not on record
	"instances-recorded",   // the instances are on record, Slurm has no addresses
	"addresses-set",        // Slurm has the addresses, the ledger does not know
	"addresses-recorded",   // it does
	"launch-settled",       // the nodes have registered and it is on record
	"launch-failing",       // a launch is given up, nothing is put back
	"nodes-powered-down",   // its nodes are put back, its job is not
	"job-requeued",         // its job has its new start time, the launch is still failing
	"launch-failed",        // all is on record
	"suspend-recorded",     // instances are to be terminated, the record is still in the spool
	"terminate-called",     // the cloud has accepted, the ledger does not know
	"termination-recorded", // it does
}
