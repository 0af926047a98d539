package aws

import (
	"sort"
	"strings"

	"github.com/midair-hpc/midair/internal/cloud"
)

// meaning is what a code of AWS means to midair.
type meaning struct {
	class cloud.Class
	// says is the sentence for users. {what} becomes the offering, or what was
	// asked where no offering is concerned; {where} the region.
	says string
	// do is what an admin does about it; empty: nothing.
	do string
	// ambiguous: the call may have taken effect all the same.
	ambiguous bool
}

const (
	noStock   = "EC2 has no capacity for {what} now"
	askQuota  = "midair quota shows what to request"
	notSigned = "AWS does not accept the credentials for {where}"
	renew     = "renew the credentials, or see profile and credentials_file of the provider in midair.yaml; midair aws check tries them"
	grant     = "add the permission to the controller's policy; midair aws check lists all that are needed"
	tooMany   = "AWS gets too many {what} calls from this account"
	badCall   = "EC2 does not take the request for {what}"
	looksBad  = "compare launch template, subnets and reservations of midair.yaml with the account; midair aws check does"
)

// codes is every code that is known, from EC2's list of error codes, the codes
// that Karpenter and ParallelCluster tell apart, their issue trackers, and the
// errors of Service Quotas, the price list and STS.
var codes = map[string]meaning{
	// Out of stock: this type in this zone on this market, now.
	"InsufficientInstanceCapacity":         {class: cloud.OutOfStock, says: noStock},
	"InsufficientCapacity":                 {class: cloud.OutOfStock, says: noStock},
	"InsufficientHostCapacity":             {class: cloud.OutOfStock, says: "EC2 has no dedicated host with room for {what} now", do: "add hosts, or take tenancy out of the launch template"},
	"InsufficientReservedInstanceCapacity": {class: cloud.OutOfStock, says: "EC2 has no reserved capacity for {what} now"},
	"InsufficientCapacityOnOutpost":        {class: cloud.OutOfStock, says: "the outpost has no capacity for {what} now"},
	"LimitedInstanceCapacity":              {class: cloud.OutOfStock, says: "EC2 has too little capacity for {what} now"},
	"UnfulfillableCapacity":                {class: cloud.OutOfStock, says: "EC2 cannot give as many of {what} as were asked for"},
	"SpotMaxPriceTooLow":                   {class: cloud.OutOfStock, says: "the spot price of {what} is above the launch template's maximum", do: "take the maximum price out of the launch template: spot never costs more than on-demand"},
	"Unsupported":                          {class: cloud.OutOfStock, says: "EC2 does not offer {what} there, or not with what the launch template asks for", do: "take the zone or the market out of the pool's offerings, or correct the launch template"},
	"ReservationCapacityExceeded":          {class: cloud.OutOfStock, says: "the capacity reservation for {what} is in use to its last instance", do: "enlarge the reservation, or list another one in midair.yaml"},
	"InsufficientFreeAddressesInSubnet":    {class: cloud.OutOfStock, says: "the subnet for {what} has no free address left", do: "list a larger subnet, or one more, under subnets in midair.yaml"},
	"InsufficientAddressCapacity":          {class: cloud.OutOfStock, says: "EC2 has no public addresses left for {what} now"},
	"InsufficientVolumeCapacity":           {class: cloud.OutOfStock, says: "EBS has no capacity for the disks of {what} now", do: "use another volume type in the launch template"},
	"PlacementGroupCapacityExceeded":       {class: cloud.OutOfStock, says: "the placement group has no room for {what} now"},
	"CapacityReservationNotAvailable":      {class: cloud.OutOfStock, says: "the capacity reservation for {what} has no instance available"},
	"SpotInstanceTerminated":               {class: cloud.OutOfStock, says: "EC2 took the spot capacity of {what} back"},
	"SpotFleetRequestConfigurationInvalid": {class: cloud.Config, says: badCall, do: looksBad},

	// Quota: the account's limit; other families stay usable.
	"VcpuLimitExceeded":                             {class: cloud.Quota, says: "the account's vCPU quota does not allow more of {what}", do: askQuota},
	"InstanceLimitExceeded":                         {class: cloud.Quota, says: "the account's instance quota does not allow more of {what}", do: askQuota},
	"MaxSpotInstanceCountExceeded":                  {class: cloud.Quota, says: "the account's spot quota does not allow more of {what}", do: askQuota},
	"SpotVcpuLimitExceeded":                         {class: cloud.Quota, says: "the account's spot quota does not allow more of {what}", do: askQuota},
	"HostLimitExceeded":                             {class: cloud.Quota, says: "the account's quota of dedicated hosts does not allow more of {what}", do: askQuota},
	"VolumeLimitExceeded":                           {class: cloud.Quota, says: "the account's quota of EBS storage does not allow more of {what}", do: "request more storage for the volume type of the launch template (Service Quotas, EBS)"},
	"MaxIOPSLimitExceeded":                          {class: cloud.Quota, says: "the account's quota of EBS operations does not allow more of {what}", do: "request more, or use gp3 in the launch template (Service Quotas, EBS)"},
	"ActiveVpcPeeringConnectionPerVpcLimitExceeded": {class: cloud.Quota, says: "a quota of the account's networks does not allow more of {what}", do: "request more (Service Quotas, VPC)"},
	"AddressLimitExceeded":                          {class: cloud.Quota, says: "the account's quota of addresses does not allow more of {what}", do: "request more (Service Quotas, EC2)"},
	"NetworkInterfaceLimitExceeded":                 {class: cloud.Quota, says: "the account's quota of network interfaces does not allow more of {what}", do: "request more (Service Quotas, VPC)"},
	"PrivateIpAddressLimitExceeded":                 {class: cloud.Quota, says: "an interface of {what} may have no more addresses", do: "ask for fewer addresses in the launch template"},
	"PlacementGroupLimitExceeded":                   {class: cloud.Quota, says: "the account may have no more placement groups", do: "delete unused ones, or request more (Service Quotas, EC2)"},
	"ConcurrentTagAccess":                           {class: cloud.Throttled, says: "several calls tag {what} at once"},
	"TagLimitExceeded":                              {class: cloud.Config, says: "EC2 allows 50 tags on an instance, and the launch template and midair together have more", do: "take tags out of the launch template"},
	"ResourceCountLimitExceeded":                    {class: cloud.Quota, says: "a quota of the account does not allow more of {what}", do: askQuota},
	"ResourceLimitExceeded":                         {class: cloud.Quota, says: "a quota of the account does not allow more of {what}", do: askQuota},
	"InstanceCreditSpecification.NotSupported":      {class: cloud.Config, says: "{what} has no CPU credits, which the launch template sets", do: "take CreditSpecification out of the launch template"},

	// Unauthorized: credentials and permissions. {action} is the permission.
	"UnauthorizedOperation": {class: cloud.Unauthorized, says: "the credentials lack the permission {action}", do: grant},
	"AccessDenied":          {class: cloud.Unauthorized, says: "the credentials lack the permission {action}", do: grant},
	"AccessDeniedException": {class: cloud.Unauthorized, says: "the credentials lack the permission {action}", do: grant},
	"UnauthorizedAccess":    {class: cloud.Unauthorized, says: "the credentials lack the permission {action}", do: grant},
	"NotAuthorized":         {class: cloud.Unauthorized, says: "the credentials lack the permission {action}", do: grant},
	"AuthFailure":           {class: cloud.Unauthorized, says: notSigned + ": the keys are wrong, or the account has not enabled the region", do: renew},
	"AuthFailure.ServiceLinkedRoleCreationNotPermitted": {class: cloud.Unauthorized, says: "the account has never used spot, and the credentials lack the permission iam:CreateServiceLinkedRole", do: "once, as an admin: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"},
	"ServiceLinkedRoleCreationNotPermitted":             {class: cloud.Unauthorized, says: "the account has never used spot, and the credentials lack the permission iam:CreateServiceLinkedRole", do: "once, as an admin: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"},
	"ExpiredToken":                                      {class: cloud.Unauthorized, says: "the session of the credentials has expired", do: renew},
	"ExpiredTokenException":                             {class: cloud.Unauthorized, says: "the session of the credentials has expired", do: renew},
	"RequestExpired":                                    {class: cloud.Unauthorized, says: "AWS calls the request expired: the session has ended, or this machine's clock is wrong", do: "set the clock (chronyc tracking), then " + renew},
	"SignatureDoesNotMatch":                             {class: cloud.Unauthorized, says: "AWS does not accept the signature: the secret key is wrong, or this machine's clock", do: "set the clock (chronyc tracking), then " + renew},
	"InvalidSignatureException":                         {class: cloud.Unauthorized, says: "AWS does not accept the signature: the secret key is wrong, or this machine's clock", do: "set the clock (chronyc tracking), then " + renew},
	"RequestTimeTooSkewed":                              {class: cloud.Unauthorized, says: "this machine's clock is too far off AWS's", do: "set the clock (chronyc tracking)"},
	"InvalidClientTokenId":                              {class: cloud.Unauthorized, says: "AWS does not know the access key", do: renew},
	"UnrecognizedClientException":                       {class: cloud.Unauthorized, says: "AWS does not know the access key, or the account has not enabled {where}", do: renew},
	"InvalidAccessKeyId":                                {class: cloud.Unauthorized, says: "AWS does not know the access key", do: renew},
	"IncompleteSignature":                               {class: cloud.Unauthorized, says: "AWS does not accept the signature", do: renew},
	"MissingAuthenticationToken":                        {class: cloud.Unauthorized, says: "the request carries no credentials", do: renew},
	"MissingAuthenticationTokenException":               {class: cloud.Unauthorized, says: "the request carries no credentials", do: renew},
	"NotSignedUp":                                       {class: cloud.Unauthorized, says: "the account is not signed up for EC2 in {where}", do: "sign up, or correct region in midair.yaml"},
	"OptInRequired":                                     {class: cloud.Unauthorized, says: "the account has not opted in to {where}, or to the image's terms", do: "enable the region in the account's settings, or subscribe to the image in AWS Marketplace"},
	"SubscriptionRequiredException":                     {class: cloud.Unauthorized, says: "the account is not subscribed to the service in {where}", do: "complete the account's sign-up"},
	"PendingVerification":                               {class: cloud.Unauthorized, says: "AWS is still verifying the account in {where}", do: "wait for AWS's mail; after four hours ask AWS support"},
	"Blocked":                                           {class: cloud.Unauthorized, says: "AWS has blocked the account", do: "ask AWS support"},
	"AccountDisabled":                                   {class: cloud.Unauthorized, says: "AWS has disabled the account", do: "ask AWS support"},
	"OperationNotPermitted":                             {class: cloud.Config, says: "EC2 does not permit {what}: the instance is protected, or not in a state for it", do: "take DisableApiTermination and DisableApiStop out of the launch template"},
	"ValidationError":                                   {class: cloud.Config, says: badCall, do: looksBad},
	"ValidationException":                               {class: cloud.Config, says: badCall, do: looksBad},

	// Throttled: the same again, later.
	"RequestLimitExceeded":         {class: cloud.Throttled, says: tooMany},
	"Throttling":                   {class: cloud.Throttled, says: tooMany},
	"ThrottlingException":          {class: cloud.Throttled, says: tooMany},
	"ThrottledException":           {class: cloud.Throttled, says: tooMany},
	"EC2ThrottledException":        {class: cloud.Throttled, says: tooMany},
	"RequestThrottled":             {class: cloud.Throttled, says: tooMany},
	"RequestThrottledException":    {class: cloud.Throttled, says: tooMany},
	"TooManyRequestsException":     {class: cloud.Throttled, says: tooMany},
	"BandwidthLimitExceeded":       {class: cloud.Throttled, says: tooMany},
	"LimitExceededException":       {class: cloud.Throttled, says: tooMany},
	"PriorRequestNotComplete":      {class: cloud.Throttled, says: "an earlier {what} call is still at work"},
	"ResourceCountExceeded":        {class: cloud.Throttled, says: "AWS gets too many {what} calls at once from this account"},
	"SlowDown":                     {class: cloud.Throttled, says: tooMany},
	"Unavailable":                  {class: cloud.Throttled, says: "EC2 is overloaded and asks to try {what} again", ambiguous: true},
	"ServiceUnavailable":           {class: cloud.Throttled, says: "EC2 is overloaded and asks to try {what} again", ambiguous: true},
	"ServiceUnavailableException":  {class: cloud.Throttled, says: "AWS is overloaded and asks to try {what} again", ambiguous: true},
	"IdempotentInstanceInProgress": {class: cloud.Throttled, says: "an earlier {what} call with the same token is still at work"},
	"IdempotencyTokenInUse":        {class: cloud.Throttled, says: "an earlier {what} call with the same token is still at work"},

	// Nobody knows whether it took effect.
	"InternalError":           {class: cloud.Unknown, says: "EC2 had an internal error at {what}", ambiguous: true},
	"InternalFailure":         {class: cloud.Unknown, says: "EC2 had an internal error at {what}", ambiguous: true},
	"InternalErrorException":  {class: cloud.Unknown, says: "AWS had an internal error at {what}", ambiguous: true},
	"ServiceException":        {class: cloud.Unknown, says: "AWS had an internal error at {what}", ambiguous: true},
	"ServerInternal":          {class: cloud.Unknown, says: "EC2 had an internal error at {what}", ambiguous: true},
	"RequestTimeout":          {class: cloud.Unknown, says: "EC2 did not get the whole {what} call in time", ambiguous: true},
	"RequestTimeoutException": {class: cloud.Unknown, says: "AWS did not get the whole {what} call in time", ambiguous: true},

	// Config: midair.yaml, the launch template and the account disagree.
	"IdempotentParameterMismatch":                  {class: cloud.Config, says: "the token was used before for another request"},
	"InvalidParameterValue":                        {class: cloud.Config, says: badCall, do: looksBad},
	"InvalidParameterCombination":                  {class: cloud.Config, says: badCall, do: looksBad},
	"InvalidParameter":                             {class: cloud.Config, says: badCall, do: looksBad},
	"InvalidParameterDependency":                   {class: cloud.Config, says: badCall, do: looksBad},
	"InvalidParameterException":                    {class: cloud.Config, says: "AWS does not take the {what} call"},
	"MissingParameter":                             {class: cloud.Config, says: badCall, do: looksBad},
	"UnknownParameter":                             {class: cloud.Config, says: badCall},
	"InvalidAction":                                {class: cloud.Config, says: "the endpoint does not know {what}", do: "correct endpoint of the provider in midair.yaml"},
	"InvalidSubnetID.NotFound":                     {class: cloud.Config, says: "the subnet for {what} is not there in {where}", do: "correct subnets in midair.yaml"},
	"InvalidSubnet":                                {class: cloud.Config, says: "the subnet for {what} cannot be used", do: "correct subnets in midair.yaml"},
	"InvalidSubnet.Conflict":                       {class: cloud.Config, says: "the subnet for {what} cannot be used", do: "correct subnets in midair.yaml"},
	"InvalidZone.NotFound":                         {class: cloud.Config, says: "the zone of {what} is not there in {where}", do: "correct zones of the pool in midair.yaml"},
	"InvalidInstanceType":                          {class: cloud.Config, says: "EC2 has no such type as {what} in {where}", do: "correct types of the pool in midair.yaml"},
	"InvalidLaunchTemplateName.NotFoundException":  {class: cloud.Config, says: "the launch template for {what} is not there in {where}", do: "correct launch_template in midair.yaml"},
	"InvalidLaunchTemplateId.NotFound":             {class: cloud.Config, says: "the launch template for {what} is not there in {where}", do: "correct launch_template in midair.yaml"},
	"InvalidLaunchTemplateId.Malformed":            {class: cloud.Config, says: "launch_template is no id of a launch template", do: "correct launch_template in midair.yaml"},
	"InvalidLaunchTemplateId.VersionNotFound":      {class: cloud.Config, says: "the launch template for {what} has no such version", do: "correct launch_template in midair.yaml"},
	"InvalidLaunchTemplateName.MalformedException": {class: cloud.Config, says: "launch_template is no name of a launch template", do: "correct launch_template in midair.yaml"},
	"InvalidAMIID.NotFound":                        {class: cloud.Config, says: "the launch template's image is not there in {where}", do: "put an image of this region into the launch template"},
	"InvalidAMIID.Malformed":                       {class: cloud.Config, says: "the launch template's image id is malformed", do: "correct the image in the launch template"},
	"InvalidAMIID.Unavailable":                     {class: cloud.Config, says: "the launch template's image is not available", do: "put another image into the launch template"},
	"InvalidAMIName.NotFound":                      {class: cloud.Config, says: "the launch template's image is not there in {where}", do: "put an image of this region into the launch template"},
	"InvalidGroup.NotFound":                        {class: cloud.Config, says: "a security group of the launch template is not there in {where}", do: "correct the security groups in the launch template"},
	"InvalidSecurityGroupID.NotFound":              {class: cloud.Config, says: "a security group of the launch template is not there in {where}", do: "correct the security groups in the launch template"},
	"InvalidSecurityGroupId.NotFound":              {class: cloud.Config, says: "a security group of the launch template is not there in {where}", do: "correct the security groups in the launch template"},
	"InvalidKeyPair.NotFound":                      {class: cloud.Config, says: "the launch template's key pair is not there in {where}", do: "correct the key pair in the launch template"},
	"InvalidSnapshot.NotFound":                     {class: cloud.Config, says: "a snapshot of the launch template is not there in {where}", do: "correct the disks in the launch template"},
	"InvalidBlockDeviceMapping":                    {class: cloud.Config, says: "the launch template's disks do not fit {what}", do: "correct the disks in the launch template"},
	"InvalidPlacementGroup.Unknown":                {class: cloud.Config, says: "the launch template's placement group is not there in {where}", do: "create it, or correct the launch template"},
	"InvalidIamInstanceProfile.NotFound":           {class: cloud.Config, says: "the launch template's instance profile is not there", do: "create it, or correct the launch template"},
	"InvalidIamInstanceProfile":                    {class: cloud.Config, says: "the launch template's instance profile cannot be used", do: "correct the instance profile in the launch template"},
	"InvalidUserData.Malformed":                    {class: cloud.Config, says: "the launch template's user data is malformed", do: "it must be base64 and at most 16 KiB"},
	"InvalidNetworkInterfaceID.NotFound":           {class: cloud.Config, says: "a network interface of the launch template is not there", do: "correct the network interfaces in the launch template"},
	"InvalidInterface.IpAddressLimitExceeded":      {class: cloud.Config, says: "the launch template's interfaces have more addresses than {what} allows", do: "correct the network interfaces in the launch template"},
	"InvalidFleetConfiguration":                    {class: cloud.Config, says: badCall, do: looksBad},
	"InvalidFleetConfig":                           {class: cloud.Config, says: badCall, do: looksBad},
	"InvalidTagKey.Malformed":                      {class: cloud.Config, says: "a tag for {what} has a key that EC2 does not take"},
	"InvalidCapacityReservationId.NotFound":        {class: cloud.Config, says: "the capacity reservation for {what} is not there in {where}", do: "correct reservations in midair.yaml"},
	"InvalidCapacityReservationId.Malformed":       {class: cloud.Config, says: "the id of the capacity reservation for {what} is malformed", do: "correct reservations in midair.yaml"},
	"InvalidCapacityReservationState":              {class: cloud.OutOfStock, says: "the capacity reservation for {what} is not active", do: "correct reservations in midair.yaml once it is over"},
	"CapacityReservationNotFound":                  {class: cloud.Config, says: "the capacity reservation for {what} is not there in {where}", do: "correct reservations in midair.yaml"},
	"InvalidState":                                 {class: cloud.Config, says: "something that {what} needs is in the wrong state", do: looksBad},
	"IncorrectState":                               {class: cloud.Config, says: "something that {what} needs is in the wrong state", do: looksBad},
	"IncorrectInstanceState":                       {class: cloud.Config, says: "the instance is not in a state for {what}"},
	"IncorrectSpotRequestState":                    {class: cloud.Config, says: "the spot request is not in a state for {what}"},
	"InvalidInstanceID.NotFound":                   {class: cloud.Config, says: "EC2 does not know the instance"},
	"InvalidInstanceID.Malformed":                  {class: cloud.Config, says: "the id is none of an instance"},
	"UnsupportedOperation":                         {class: cloud.Config, says: "EC2 cannot do {what} with the instance or the launch template", do: looksBad},
	"UnsupportedHibernationConfiguration":          {class: cloud.Config, says: "the instance was not launched so that it can hibernate", do: "set HibernationOptions in the launch template, with an encrypted root disk"},
	"UnsupportedInstanceTypeOnHost":                {class: cloud.Config, says: "the dedicated host does not take {what}", do: "correct the launch template"},
	"UnsupportedTenancy":                           {class: cloud.Config, says: "{what} cannot have the launch template's tenancy", do: "correct the launch template"},
	"VPCIdNotSpecified":                            {class: cloud.Config, says: "the account has no default network in {where}", do: "list subnets in midair.yaml"},
	"VPCResourceNotSpecified":                      {class: cloud.Config, says: "{what} needs a subnet", do: "list subnets in midair.yaml"},
	"DefaultVpcDoesNotExist":                       {class: cloud.Config, says: "the account has no default network in {where}", do: "list subnets in midair.yaml"},
	"EncryptedVolumesNotSupported":                 {class: cloud.Config, says: "{what} does not take encrypted disks", do: "correct the disks in the launch template"},
	"InvalidRequest":                               {class: cloud.Config, says: badCall, do: looksBad},
	"MalformedQueryString":                         {class: cloud.Config, says: badCall},
	"RequestResourceCountExceeded":                 {class: cloud.Config, says: "the {what} call names too many things at once"},
	"NoSuchResourceException":                      {class: cloud.Config, says: "AWS does not know what {what} asks for"},
	"NotFoundException":                            {class: cloud.Config, says: "AWS does not know what {what} asks for"},
	"InvalidNextToken":                             {class: cloud.Unknown, says: "EC2 lost its place in a long list", ambiguous: true},
	"InvalidPaginationToken":                       {class: cloud.Unknown, says: "EC2 lost its place in a long list", ambiguous: true},
	"ExpiredNextTokenException":                    {class: cloud.Unknown, says: "AWS lost its place in a long list", ambiguous: true},
	"InvalidNextTokenException":                    {class: cloud.Unknown, says: "AWS lost its place in a long list", ambiguous: true},
	"InvalidPaginationTokenException":              {class: cloud.Unknown, says: "AWS lost its place in a long list", ambiguous: true},
	"KMSKeyNotAccessibleException":                 {class: cloud.Unauthorized, says: "the disks' encryption key cannot be used", do: "let the controller's role use the key: kms:CreateGrant, kms:Decrypt, kms:GenerateDataKeyWithoutPlaintext"},
	"InvalidKMSKey.InvalidState":                   {class: cloud.Config, says: "the disks' encryption key is not enabled", do: "enable the key, or take it out of the launch template"},
}

// codeFamily is a group of codes that are told by a part of their name.
type codeFamily struct {
	has  []string // any of these
	code string   // whose meaning it has
}

// families are for codes that AWS adds, in the order in which they are tried.
var families = []codeFamily{
	{[]string{"Throttl", "TooManyRequests", "RequestLimit", "RateExceeded", "RATE_LIMIT"}, "Throttling"},
	{[]string{"LimitExceeded", "CountExceeded", "QuotaExceeded", "QUOTA"}, "ResourceLimitExceeded"},
	{[]string{"InsufficientFreeAddresses"}, "InsufficientFreeAddressesInSubnet"},
	{[]string{"CapacityExceeded", "EXHAUSTED", "OutOfCapacity"}, "InsufficientInstanceCapacity"},
	{[]string{"ServiceLinkedRole"}, "AuthFailure.ServiceLinkedRoleCreationNotPermitted"},
	{[]string{"Unauthorized", "AccessDenied", "NotAuthorized", "NotPermitted"}, "UnauthorizedOperation"},
	{[]string{"AuthFailure", "InvalidClientToken", "UnrecognizedClient"}, "AuthFailure"},
	{[]string{"Expired"}, "ExpiredToken"},
	{[]string{"InvalidLaunchTemplate"}, "InvalidLaunchTemplateId.NotFound"},
	{[]string{"InvalidAMI"}, "InvalidAMIID.NotFound"},
	{[]string{"InvalidSubnet"}, "InvalidSubnet"},
	{[]string{"InvalidSecurityGroup", "InvalidGroup"}, "InvalidGroup.NotFound"},
	{[]string{"InvalidCapacityReservation"}, "InvalidCapacityReservationId.NotFound"},
	{[]string{"Invalid", "Malformed", "Missing", "NotFound", "Incorrect", "Unsupported", "NotSupported", "DoesNotExist", "Mismatch"}, "InvalidParameterValue"},
}

// byLength has the known codes, the longest first.
var byLength = func() []string {
	all := make([]string, 0, len(codes))
	for c := range codes {
		all = append(all, c)
	}
	sort.Slice(all, func(a, b int) bool {
		if len(all[a]) != len(all[b]) {
			return len(all[a]) > len(all[b])
		}
		return all[a] < all[b]
	})
	return all
}()

// meaningOf gives what a code means: its own entry, that of the longest code
// that it begins with, or that of its family.
func meaningOf(code string) (meaning, bool) {
	code = strings.TrimPrefix(strings.TrimPrefix(code, "Client."), "Server.")
	if m, ok := codes[code]; ok {
		return m, true
	}
	for _, c := range byLength {
		// "Unsupported" begins many names of other things.
		if rest, ok := strings.CutPrefix(code, c); ok && strings.IndexAny(rest, "._-:") == 0 {
			return codes[c], true
		}
	}
	if strings.HasPrefix(code, "Insufficient") && strings.Contains(code, "Capacity") {
		return codes["InsufficientInstanceCapacity"], true
	}
	for _, f := range families {
		for _, part := range f.has {
			if strings.Contains(code, part) {
				return codes[f.code], true
			}
		}
	}
	return meaning{}, false
}

// Advice is what an admin does about a code of AWS; empty: nothing.
func Advice(code string) string {
	m, _ := meaningOf(code)
	return m.do
}
