package ec2sim

import "fmt"

// Error is an answer that is an error, as EC2 gives it.
type Error struct {
	Code    string
	Message string
	Status  int // HTTP
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func fail(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Status: StatusOf(code)}
}

// statuses are the HTTP statuses of codes that are not 400. Clients tell by
// them what to try again, so they matter: a shortage is a 500 at EC2.
var statuses = map[string]int{
	"AuthFailure":                          401,
	"UnauthorizedOperation":                403,
	"DryRunOperation":                      412,
	"MissingAuthenticationToken":           403,
	"SignatureDoesNotMatch":                403,
	"InvalidClientTokenId":                 403,
	"ExpiredToken":                         403,
	"AccessDenied":                         403,
	"OptInRequired":                        401,
	"Blocked":                              403,
	"PendingVerification":                  400,
	"InsufficientInstanceCapacity":         500,
	"InsufficientCapacity":                 500,
	"InsufficientHostCapacity":             500,
	"InsufficientReservedInstanceCapacity": 500,
	"InsufficientCapacityOnOutpost":        500,
	"UnfulfillableCapacity":                500,
	"InternalError":                        500,
	"InternalFailure":                      500,
	"ServerInternal":                       500,
	"RequestLimitExceeded":                 503,
	"ServiceUnavailable":                   503,
	"Unavailable":                          503,
	"InsufficientAddressCapacity":          500,
}

// StatusOf is the HTTP status that EC2 sends with a code.
func StatusOf(code string) int {
	if s, ok := statuses[code]; ok {
		return s
	}
	return 400
}
