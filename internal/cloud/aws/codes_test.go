package aws

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"

	"github.com/aws/smithy-go"

	"github.com/midair-hpc/midair/internal/cloud"
)

func TestCodesMeanClasses(t *testing.T) {
	for code, class := range map[string]cloud.Class{
		"InsufficientInstanceCapacity": cloud.OutOfStock, "InsufficientHostCapacity": cloud.OutOfStock,
		"InsufficientReservedInstanceCapacity": cloud.OutOfStock, "InsufficientCapacity": cloud.OutOfStock,
		"SpotMaxPriceTooLow": cloud.OutOfStock, "UnfulfillableCapacity": cloud.OutOfStock, "Unsupported": cloud.OutOfStock,
		"InsufficientFreeAddressesInSubnet": cloud.OutOfStock, "InsufficientVolumeCapacity": cloud.OutOfStock,
		"ReservationCapacityExceeded": cloud.OutOfStock, "LimitedInstanceCapacity": cloud.OutOfStock,
		"MaxSpotInstanceCountExceeded": cloud.Quota, "VcpuLimitExceeded": cloud.Quota, "InstanceLimitExceeded": cloud.Quota, "VolumeLimitExceeded": cloud.Quota,
		"UnauthorizedOperation": cloud.Unauthorized, "AuthFailure": cloud.Unauthorized, "ExpiredToken": cloud.Unauthorized, "RequestExpired": cloud.Unauthorized,
		"InvalidClientTokenId": cloud.Unauthorized, "SignatureDoesNotMatch": cloud.Unauthorized, "OptInRequired": cloud.Unauthorized, "PendingVerification": cloud.Unauthorized,
		"AuthFailure.ServiceLinkedRoleCreationNotPermitted": cloud.Unauthorized, "AccessDeniedException": cloud.Unauthorized,
		"InvalidParameterValue": cloud.Config, "InvalidParameterCombination": cloud.Config, "InvalidSubnetID.NotFound": cloud.Config,
		"InvalidLaunchTemplateName.NotFoundException": cloud.Config, "InvalidLaunchTemplateId.VersionNotFound": cloud.Config, "InvalidAMIID.NotFound": cloud.Config,
		"IdempotentParameterMismatch": cloud.Config, "InvalidCapacityReservationId.NotFound": cloud.Config, "UnsupportedOperation": cloud.Config,
		"RequestLimitExceeded": cloud.Throttled, "Throttling": cloud.Throttled, "ThrottlingException": cloud.Throttled, "EC2ThrottledException": cloud.Throttled,
		"TooManyRequestsException": cloud.Throttled, "Unavailable": cloud.Throttled,
		"InternalError": cloud.Unknown, "ServerInternal": cloud.Unknown, "InternalFailure": cloud.Unknown,
		// What AWS adds is told by its family.
		"InsufficientInstanceCapacity_WITH_DETAILS": cloud.OutOfStock, "InsufficientAcceleratorCapacity": cloud.OutOfStock, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": cloud.OutOfStock,
		"GpuLimitExceeded": cloud.Quota, "QUOTA_EXCEEDED": cloud.Quota, "SpotInstanceCountExceeded": cloud.Quota,
		"RequestThrottledTooOften": cloud.Throttled, "UnauthorizedSomething": cloud.Unauthorized, "InvalidSomething.NotFound": cloud.Config,
		"InvalidLaunchTemplateVersion.Gone": cloud.Config, "Client.InvalidAMIID.Gone": cloud.Config, "Server.InsufficientInstanceCapacity": cloud.OutOfStock,
		"UnsupportedSomething": cloud.Config,
	} {
		m, known := meaningOf(code)
		require.True(t, known, code)
		require.Equal(t, class, m.class, code)
	}
	_, known := meaningOf("Brandnew")
	require.False(t, known)
}

func TestEveryCodeHasASentenceForUsers(t *testing.T) {
	p := &Provider{name: "east", now: time.Now, reported: map[string]bool{}}
	p.conf.Region = "us-east-1"
	for code, m := range codes {
		e := p.classifyCode("RunInstances", "g5.xlarge/us-east-1a/spot", code, "", nil)
		require.Contains(t, cloud.Classes, e.Class, code)
		require.NotEmpty(t, e.Message, code)
		require.NotContains(t, e.Message, "{", code)
		require.False(t, strings.HasSuffix(e.Message, "."), code)
		require.False(t, e.Ambiguous, "what a fleet says of a pool is definite: %s", code)
		require.True(t, !m.ambiguous || m.class == cloud.Unknown || m.class == cloud.Throttled, "%s is repeated with the same token, so its class must say so", code)
		if m.class == cloud.Quota || m.class == cloud.Unauthorized {
			require.NotEmpty(t, Advice(code), "an admin must act on %s, but how?", code)
		}
	}
}

// answered is an error as the SDK gives it.
func answered(status int, code, text string, date time.Time) error {
	r := &http.Response{StatusCode: status, Header: http.Header{}}
	if !date.IsZero() {
		r.Header.Set("Date", date.UTC().Format(http.TimeFormat))
	}
	return &smithy.OperationError{ServiceID: "EC2", OperationName: "RunInstances", Err: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: r}, Err: &smithy.GenericAPIError{Code: code, Message: text},
	}}
}

func TestUnknownCodeIsSafeAndAskedToBeReportedOnce(t *testing.T) {
	var log bytes.Buffer
	p := &Provider{name: "east", now: time.Now, reported: map[string]bool{}, log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		e := p.classify("RunInstances", "", answered(400, "Brandnew", "Something new.", time.Time{}))
		require.Equal(t, cloud.Unknown, e.Class)
		require.Equal(t, "Brandnew", e.Code)
		require.False(t, e.Ambiguous, "EC2 has refused")
		require.True(t, p.classify("RunInstances", "", answered(500, "Brandnew", "Something new.", time.Time{})).Ambiguous, "nobody knows what a server error has left")
	}
	require.Equal(t, 1, strings.Count(log.String(), "please report"))
}

func TestShortageWithStatus500IsDefinite(t *testing.T) {
	p := &Provider{now: time.Now, reported: map[string]bool{}}
	e := p.classify("RunInstances", "g5.xlarge/us-east-1a/spot", answered(500, "InsufficientInstanceCapacity", "We currently do not have …", time.Time{}))
	require.Equal(t, cloud.OutOfStock, e.Class)
	require.False(t, e.Ambiguous)
	require.True(t, p.classify("RunInstances", "", answered(500, "InternalError", "", time.Time{})).Ambiguous)
}

func TestClockThatIsWrongIsNamed(t *testing.T) {
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	p := &Provider{now: func() time.Time { return now }, reported: map[string]bool{}}
	e := p.classify("RunInstances", "", answered(403, "SignatureDoesNotMatch", "Signature expired", now.Add(-20*time.Minute)))
	require.Contains(t, e.Message, "clock is 20m0s ahead of AWS's")
	e = p.classify("RunInstances", "", answered(400, "RequestExpired", "Request has expired.", now.Add(7*time.Minute)))
	require.Contains(t, e.Message, "clock is 7m0s behind AWS's")
	e = p.classify("RunInstances", "", answered(400, "RequestExpired", "Request has expired.", now))
	require.NotContains(t, e.Message, "s behind")
}

func TestMissingPermissionIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"You are not authorized to perform this operation. User: arn:aws:iam::1:user/m is not authorized to perform: iam:PassRole on resource: arn:aws:iam::1:role/n": "iam:PassRole",
		"You are not authorized to perform this operation. Encoded authorization failure message: vHw8…":                                                              "ec2:RunInstances, or ec2:CreateTags or iam:PassRole for it",
		"": "ec2:RunInstances",
	} {
		require.Equal(t, want, denied("RunInstances", text))
	}
	require.Equal(t, "servicequotas:ListServiceQuotas", denied("ListServiceQuotas", ""))
}

func TestLostConnectionIsAmbiguous(t *testing.T) {
	p := &Provider{now: time.Now, reported: map[string]bool{}}
	e := p.classify("RunInstances", "", errors.New("EOF"))
	require.True(t, e.Ambiguous)
	require.Equal(t, cloud.Unknown, e.Class)
	require.Equal(t, "AWS cannot be reached for RunInstances: EOF", e.Message)
}
