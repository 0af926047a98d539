package hostlist

import (
	"fmt"
	"strconv"
)

// Error says what is wrong with an expression.
type Error struct {
	Expr    string // the expression as given
	Pos     int    // the byte of Expr that is at fault, counted from 1
	Problem string // what is wrong there
	Advice  string // what to do
	TooMany bool   // the expression is right, but has more names than the bound
}

func (e *Error) Error() string {
	return fmt.Sprintf("hostlist %s: position %d: %s; %s", e.excerpt(), e.Pos, e.Problem, e.Advice)
}

// excerpt quotes the expression, or what is around the fault where the whole
// would be too long for a message.
func (e *Error) excerpt() string {
	const around = 40
	from, to := max(0, e.Pos-1-around), min(len(e.Expr), e.Pos-1+around)
	text := e.Expr[from:to]
	if from > 0 {
		text = "..." + text
	}
	if to < len(e.Expr) {
		text += "..."
	}
	return strconv.Quote(text)
}
