package cloudtest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// bug is one way to break the contract.
type bug string

// The bugs that the reference can be given.
const (
	ignoresTokens          bug = "ignores tokens"
	keepsTokensInMemory    bug = "forgets its tokens at a restart"
	checksTokenUnlocked    bug = "looks a token up and buys without a lock"
	findsTokensByList      bug = "finds out by List whether a token is known"
	findsNodesByName       bug = "takes the same node for the same request"
	forgetsTokenWithAnswer bug = "forgets a token whose answer was lost"
	refillsTokens          bug = "replaces what a token has lost"
	hidesEndedFromToken    bug = "does not answer with instances that have ended"
	ignoresOtherNodes      bug = "does not compare a known token's nodes"
	ignoresGeneration      bug = "does not compare a known token's generations"
	ignoresOtherOfferings  bug = "does not compare a known token's offerings"

	forgetsTags          bug = "forgets the caller's tags"
	forgetsGenerationTag bug = "forgets the generation's tag"
	sharesTags           bug = "hands out its own tags"
	givesOneAddress      bug = "gives all the same address"
	givesNoAddress       bug = "gives no address"
	swapsNodes           bug = "gives all instances to the first node"
	reusesIDs            bug = "uses ids again"
	forgetsCreatedAt     bug = "does not know when an instance was created"
	neverRuns            bug = "leaves instances pending"
	refusesUnregistered  bug = "ends instances that have not registered"
	sortsRequest         bug = "changes the request"
	capsCalls            bug = "launches 100 nodes of a call and drops the others"

	namesOnce     bug = "refuses to name an instance again"
	namesLiveOnly bug = "refuses to name what has ended"
	neverNames    bug = "does not keep names"
	namesHalf     bug = "shows the generation of what has no name"
	losesUnnamed  bug = "does not tag with the node set"

	splitsJobs             bug = "gives part of all or nothing"
	mixesOfferings         bug = "fills all or nothing from several offerings"
	reservesForNothing     bug = "uses up stock for all or nothing that fails"
	endsWhatDidNotFit      bug = "creates all or nothing and ends it again"
	givesAllOrNothing      bug = "gives nothing where a part was wanted"
	countsAllAsMissing     bug = "counts served nodes as missing"
	hidesShortfalls        bug = "says nothing of shortfalls"
	reportsShortageAsError bug = "reports a shortage as an error"
	callsShortageUnknown   bug = "calls a shortage unknown"
	makesShortageAmbiguous bug = "calls a shortage ambiguous"
	prefersLast            bug = "takes the last offering first"
	triesFirstOnly         bug = "tries the first offering only"
	oversells              bug = "counts stock without a lock"
	sharesStock            bug = "takes one offering's shortage for everything"
	callsQuotaOutOfStock   bug = "calls a quota a shortage"

	ignoresSize           bug = "launches what is too small"
	ignoresMemory         bug = "launches what has too little memory"
	callsMismatchConfig   bug = "calls a spec-mismatch config"
	sellsAnything         bug = "sells what does not exist"
	callsUnsoldOutOfStock bug = "calls what does not exist out of stock"

	losesPlainly           bug = "returns errors without a class"
	tagsAfterwards         bug = "sets tags after the create call"
	losesDefinitely        bug = "calls a lost answer definite"
	endsSentences          bug = "ends its sentences with a stop"
	callsThrottlingUnknown bug = "calls throttling unknown"
	throttlesAfterwards    bug = "creates and then says throttled"

	failsWhenEmpty    bug = "fails to list an empty account"
	neverCatchesUp    bug = "never lists what it did not list at once"
	listsAllClusters  bug = "lists other clusters"
	listsWithoutToken bug = "lists without token and pool"
	listsTwice        bug = "lists an instance twice"
	hidesEnded        bug = "does not list what has ended"
	vanishesSilently  bug = "does not say why an instance vanished"
	vanishesFromList  bug = "does not list what has vanished"

	demandsKnownIDs   bug = "fails to terminate unknown ids"
	demandsLiveIDs    bug = "fails to terminate what has ended"
	movesEnd          bug = "moves the end when terminate is repeated"
	endsByNode        bug = "terminates by node"
	sparesBooting     bug = "does not terminate what boots"
	endsOnlyListed    bug = "does not terminate what List does not show yet"
	forgetsEndedAt    bug = "does not know when an instance ended"
	hidesShuttingDown bug = "shows what shuts down as running"
	waitsForDelete    bug = "waits in Terminate until all are gone"

	sortsQuotes          bug = "sorts quotes"
	quotesForFree        bug = "quotes without a price"
	consoleOfLiveOnly    bug = "has no console of what has ended"
	consoleAfterBootOnly bug = "has no console of what boots"
	ignoresContext       bug = "does not heed its context"
	cancelsDefinitely    bug = "calls a cancelled launch definite"
)

// Which check each bug must fail, beside others that it may.
var mutants = []struct {
	bug   bug
	check string
}{
	{ignoresTokens, "the same token gives the same instances"},
	{keepsTokensInMemory, "the same token gives the same instances after a restart"},
	{keepsTokensInMemory, "a lost answer is made up for after a restart"},
	{checksTokenUnlocked, "the same token from eight callers at once gives one set of instances"},
	{findsTokensByList, "a lost answer is made up for though the list lags"},
	{findsNodesByName, "a new token for the same node gives a new instance"},
	{findsNodesByName, "a new generation of a node stands beside the old one"},
	{forgetsTokenWithAnswer, "a lost answer is ambiguous, and the token gives the instances"},
	{forgetsTokenWithAnswer, "a lost answer of a partial success is made up for"},
	{refillsTokens, "the same token gives instances that have ended since, and no new ones"},
	{refillsTokens, "the same token gives the same part after a partial success"},
	{hidesEndedFromToken, "the same token gives instances that have ended since, and no new ones"},
	{ignoresOtherNodes, "a token with other nodes is refused"},
	{ignoresGeneration, "a token with other nodes is refused"},
	{ignoresOtherOfferings, "a token with other offerings is refused"},

	{forgetsTags, "instances carry all tags"},
	{forgetsGenerationTag, "instances carry all tags"},
	{sharesTags, "instances carry all tags"},
	{givesOneAddress, "instances get an address of their own"},
	{givesNoAddress, "instances get an address of their own"},
	{swapsNodes, "launch gives one instance per node"},
	{reusesIDs, "launch gives one instance per node"},
	{reusesIDs, "launches side by side do not mix"},
	{forgetsCreatedAt, "launch gives one instance per node"},
	{neverRuns, "instances come to run"},
	{refusesUnregistered, "an instance that never becomes a node runs all the same"},
	{sortsRequest, "launch leaves the request as it is"},
	{capsCalls, "many nodes in one request"},

	{namesOnce, "instances may be named twice, in parts, and after their end"},
	{namesLiveOnly, "instances may be named twice, in parts, and after their end"},

	{splitsJobs, "all or nothing with too little stock creates nothing"},
	{mixesOfferings, "all or nothing comes from one offering"},
	{mixesOfferings, "all or nothing that fits in no offering creates nothing"},
	{reservesForNothing, "all or nothing with too little stock creates nothing"},
	{endsWhatDidNotFit, "all or nothing with too little stock creates nothing"},
	{givesAllOrNothing, "best effort with too little stock gives a part and says how many it could not"},
	{givesAllOrNothing, "best effort fills up from the next offering"},
	{countsAllAsMissing, "best effort with too little stock gives a part and says how many it could not"},
	{hidesShortfalls, "out of stock is a shortfall and creates nothing"},
	{reportsShortageAsError, "out of stock is a shortfall and creates nothing"},
	{callsShortageUnknown, "out of stock is a shortfall and creates nothing"},
	{callsShortageUnknown, "all or nothing with just enough stock gives all"},
	{makesShortageAmbiguous, "out of stock is a shortfall and creates nothing"},
	{prefersLast, "the first offering that has stock is taken"},
	{triesFirstOnly, "the first offering that has stock is taken"},
	{oversells, "callers at once do not share the last instances"},
	{sharesStock, "one offering out of stock leaves the others alone"},
	{callsQuotaOutOfStock, "a quota is told from a shortage"},

	{ignoresSize, "an instance smaller than promised is never launched"},
	{ignoresSize, "an offering that is too small is passed over for one that fits"},
	{ignoresMemory, "an instance smaller than promised is never launched"},
	{callsMismatchConfig, "an instance smaller than promised is never launched"},
	{sellsAnything, "an offering that is not sold is a config error"},
	{sellsAnything, "a quote for what is not sold is a config error"},
	{callsUnsoldOutOfStock, "an offering that is not sold is a config error"},

	{losesPlainly, "a lost answer is ambiguous, and the token gives the instances"},
	{tagsAfterwards, "instances whose answer was lost are listed with all tags"},
	{losesDefinitely, "a lost answer is ambiguous, and the token gives the instances"},
	{endsSentences, "a lost answer is ambiguous, and the token gives the instances"},
	{callsThrottlingUnknown, "a throttled launch creates nothing and works later"},
	{callsThrottlingUnknown, "other calls say that they are throttled"},
	{throttlesAfterwards, "a throttled launch creates nothing and works later"},

	{failsWhenEmpty, "an empty account has no instances"},
	{neverCatchesUp, "a list that lags comes to show the instance"},
	{listsAllClusters, "list leaves out other clusters"},
	{listsWithoutToken, "list shows what launch gave"},
	{listsWithoutToken, "list shows the same after a restart"},
	{listsTwice, "list shows what launch gave"},
	{hidesEnded, "terminated instances are shown as ended for a while"},
	{vanishesSilently, "an instance that the cloud takes away is shown with the cause"},
	{vanishesFromList, "an instance that the cloud takes away is shown with the cause"},

	{demandsKnownIDs, "terminating unknown ids is success"},
	{demandsLiveIDs, "terminate may be repeated"},
	{movesEnd, "terminate may be repeated"},
	{endsByNode, "a new generation of a node stands beside the old one"},
	{sparesBooting, "an instance can be terminated while it boots"},
	{endsOnlyListed, "an instance can be terminated before the list shows it"},
	{forgetsEndedAt, "terminated instances are shown as ended for a while"},
	{hidesShuttingDown, "a slow delete is shown as shutting down until it is done"},
	{waitsForDelete, "a slow delete is shown as shutting down until it is done"},

	{sortsQuotes, "quotes come in the order asked for, with prices"},
	{quotesForFree, "quotes come in the order asked for, with prices"},
	{consoleOfLiveOnly, "console is no error for any instance that was ever launched"},
	{consoleAfterBootOnly, "console is no error for any instance that was ever launched"},
	{ignoresContext, "calls with a cancelled context return promptly"},
	{cancelsDefinitely, "calls with a cancelled context return promptly"},
	{cancelsDefinitely, "a launch that is cancelled on its way is made up for by its token"},
}

// laterMutants are bugs of an account that names later.
var laterMutants = []struct {
	bug   bug
	check string
}{
	{neverNames, "instances carry all tags"},
	{neverNames, "list shows what launch gave"},
	{neverNames, "instances may be named twice, in parts, and after their end"},
	{namesHalf, "instances that have not been named are told by their token"},
	{losesUnnamed, "instances that have not been named are told by their token"},
	{losesUnnamed, "instances whose answer was lost are listed with all tags"},
	{listsWithoutToken, "instances that have not been named are told by their token"},
	{forgetsTags, "instances carry all tags"},
}

func checkNamed(t *testing.T, name string) check {
	t.Helper()
	for _, c := range checks {
		if c.name == name {
			return c
		}
	}
	require.FailNow(t, "no check is named "+name)
	return check{}
}

// Waiting costs nothing in a bubble, so mutants that never come to show
// something are caught as fast as the others.
func TestSuiteNoticesEveryBug(t *testing.T) {
	for _, m := range mutants {
		t.Run(string(m.bug), func(t *testing.T) {
			c := checkNamed(t, m.check)
			synctest.Test(t, func(t *testing.T) {
				r := record(t, c, newReference(m.bug))
				require.True(t, r.failed, "a provider that %s passes %q", m.bug, m.check)
				require.NotContains(t, r.text(), "panic")
				time.Sleep(2 * time.Hour) // for goroutines of providers that hang
			})
		})
	}
}

func TestSuiteNoticesBugsOfNamingLater(t *testing.T) {
	for _, m := range laterMutants {
		t.Run(string(m.bug)+" "+m.check, func(t *testing.T) {
			c := checkNamed(t, m.check)
			synctest.Test(t, func(t *testing.T) {
				r := record(t, c, newLaterReference(m.bug))
				require.True(t, r.failed, "a provider that %s passes %q", m.bug, m.check)
				require.NotContains(t, r.text(), "panic")
			})
		})
	}
}

// A check that nothing fails checks nothing.
func TestEveryCheckIsFailedBySomeBug(t *testing.T) {
	caught := map[string]bool{}
	for _, m := range mutants {
		caught[m.check] = true
	}
	for _, m := range laterMutants {
		caught[m.check] = true
	}
	for _, c := range checks {
		require.True(t, caught[c.name], "no bug is known that %q notices", c.name)
	}
}
