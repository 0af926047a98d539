package aws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
)

// Options says what account and region to open. AWS.Region is required.
type Options struct {
	Name string // the provider's name in midair.yaml, for messages
	AWS  config.AWS
	// Pools are those of midair.yaml that use this provider, by name, for what
	// they say of their own.
	Pools map[string]config.PoolAWS
	// Attempts is how often a call that changes nothing is tried when it is
	// throttled or gets no answer; 0: 6.
	Attempts int
	// ShownWithin bounds how long Launch waits for new instances to be
	// described with their addresses; 0: 4 s.
	ShownWithin time.Duration
	HTTPClient  awssdk.HTTPClient // nil: the SDK's
	Now         func() time.Time  // nil: time.Now
	Rand        func() float64    // in [0, 1), for jitter; nil: math/rand
	Log         *slog.Logger      // nil: slog.Default()
}

// Defaults of Options.
const (
	defaultAttempts    = 6
	defaultShownWithin = 4 * time.Second
)

// Provider is one account in one region. It is safe for concurrent use.
type Provider struct {
	name        string
	conf        config.AWS
	pools       map[string]config.PoolAWS
	attempts    int
	shownWithin time.Duration
	now         func() time.Time
	rand        func() float64
	sleep       func(context.Context, time.Duration) error
	log         *slog.Logger

	ec2    *ec2.Client
	quotas *servicequotas.Client
	prices *pricing.Client
	sts    *sts.Client
	creds  awssdk.CredentialsProvider
	file   *priceFile // nil: none

	gates     gates
	types     *memo[string, typeInfo]
	zones     *memo[string, map[string]bool]
	templates *memo[string, template]
	subnets   *memo[string, []string]
	spot      *memo[string, map[string]cloud.MicroUSD]
	onDemand  *memo[string, cloud.MicroUSD]

	mu          sync.Mutex
	listFailed  time.Time // when the price list could not be asked, and why
	listTrouble error
	young       map[string]birth     // instances that this process has created, until EC2 surely finds them
	ended       map[string]time.Time // when an instance was first seen ended, where EC2 does not say
	reported    map[string]bool      // codes that were asked to be reported
}

var (
	_ cloud.Provider      = (*Provider)(nil)
	_ cloud.LimitReporter = (*Provider)(nil)
)

// Open reads the SDK's configuration files and the price file. It calls nobody:
// credentials and permissions are found out by the first call, or by Check.
func Open(o Options) (*Provider, error) {
	if o.AWS.Region == "" {
		return nil, errors.New("open AWS: no region; set region in midair.yaml, such as us-east-1")
	}
	p := &Provider{
		name: o.Name, conf: o.AWS, pools: o.Pools, attempts: o.Attempts, shownWithin: o.ShownWithin,
		now: o.Now, rand: o.Rand, sleep: sleep, log: o.Log,
		young: map[string]birth{}, ended: map[string]time.Time{}, reported: map[string]bool{},
	}
	if p.attempts == 0 {
		p.attempts = defaultAttempts
	}
	if p.shownWithin == 0 {
		p.shownWithin = defaultShownWithin
	}
	if p.now == nil {
		p.now = time.Now
	}
	if p.rand == nil {
		p.rand = rand.Float64
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	p.log = p.log.With("provider", o.Name)
	if o.AWS.PriceFile != "" {
		f, err := loadPriceFile(o.AWS.PriceFile)
		if err != nil {
			return nil, err
		}
		p.file = f
	}
	if err := p.connect(o.HTTPClient); err != nil {
		return nil, err
	}
	p.types = newMemo[string, typeInfo](p.now, typesKept)
	p.zones = newMemo[string, map[string]bool](p.now, typesKept)
	p.templates = newMemo[string, template](p.now, templatesKept)
	p.subnets = newMemo[string, []string](p.now, subnetsKept)
	p.spot = newMemo[string, map[string]cloud.MicroUSD](p.now, spotKept)
	p.onDemand = newMemo[string, cloud.MicroUSD](p.now, onDemandKept)
	return p, nil
}

// connect makes the clients.
func (p *Provider) connect(h awssdk.HTTPClient) error {
	load := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRegion(p.conf.Region),
		awsconfig.WithRetryer(func() awssdk.Retryer { return awssdk.NopRetryer{} }),
		awsconfig.WithAppID("midair"),
		awsconfig.WithLogger(logging.LoggerFunc(func(_ logging.Classification, format string, args ...any) {
			p.log.Debug("AWS SDK", "says", fmt.Sprintf(format, args...))
		})),
	}
	if p.conf.Profile != "" {
		load = append(load, awsconfig.WithSharedConfigProfile(p.conf.Profile))
	}
	if p.conf.CredentialsFile != "" {
		load = append(load, awsconfig.WithSharedCredentialsFiles([]string{p.conf.CredentialsFile}))
	}
	cfg, err := awsconfig.LoadDefaultConfig(context.Background(), load...)
	if err != nil {
		return fmt.Errorf("open AWS: %w; see profile and credentials_file of provider %s in midair.yaml", err, p.name)
	}
	if h != nil {
		cfg.HTTPClient = h
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = awshttp.NewBuildableClient() // what the SDK would take
	}
	cfg.HTTPClient = wholeBody{cfg.HTTPClient}
	var base *string
	if p.conf.Endpoint != "" {
		base = awssdk.String(p.conf.Endpoint)
	}
	p.creds = &credentials{chain: cfg.Credentials, now: p.now}
	cfg.Credentials = p.creds
	p.ec2 = ec2.NewFromConfig(cfg, func(o *ec2.Options) { o.BaseEndpoint = base })
	p.quotas = servicequotas.NewFromConfig(cfg, func(o *servicequotas.Options) { o.BaseEndpoint = base })
	p.prices = pricing.NewFromConfig(cfg, func(o *pricing.Options) {
		o.BaseEndpoint, o.Region = base, pricingRegion(p.conf.Region)
	})
	p.sts = sts.NewFromConfig(cfg, func(o *sts.Options) { o.BaseEndpoint = base })
	return nil
}

// wholeBody sends requests from a copy of their body. The SDK closes the body as
// soon as an answer begins; net/http, which may still be looking whether more of
// it comes, then takes that for a failed write and closes the connection in the
// midst of the answer.
type wholeBody struct{ awssdk.HTTPClient }

// Do implements aws.HTTPClient.
func (c wholeBody) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return c.HTTPClient.Do(r)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request's body: %w", err)
	}
	own := *r
	own.Body, own.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return c.HTTPClient.Do(&own)
}

// Region is where the provider buys.
func (p *Provider) Region() string { return p.conf.Region }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// credentialsRetry is how soon the chain is asked again after it had none.
// Looking for an instance role where there is none takes many seconds.
const credentialsRetry = 30 * time.Second

// errNoCredentials is that the SDK's chain has none.
var errNoCredentials = errors.New("no credentials")

// credentials is the SDK's chain with a memory of its failure.
type credentials struct {
	chain awssdk.CredentialsProvider
	now   func() time.Time

	mu     sync.Mutex
	failed time.Time
	err    error
}

// Retrieve implements aws.CredentialsProvider.
func (c *credentials) Retrieve(ctx context.Context) (awssdk.Credentials, error) {
	c.mu.Lock()
	failed, err := c.failed, c.err
	c.mu.Unlock()
	if err != nil && c.now().Sub(failed) < credentialsRetry {
		return awssdk.Credentials{}, err
	}
	v, err := c.chain.Retrieve(ctx)
	if err != nil && ctx.Err() != nil {
		return v, err
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errNoCredentials, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed, c.err = c.now(), err
	return v, err
}
