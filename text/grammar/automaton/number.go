package automaton

import "math/big"

// numbers are the expressions of decimal numbers that are multiples of a divisor. An expression's state is the
// remainder of the digits so far.
type numbers struct {
	*store
	divisors []divisor
}

// divisor is what decimal numbers are a multiple of: modulus, in units of 10 to the power -digits.
type divisor struct {
	modulus int64
	digits  int32
}

// phases of a number.
const (
	beforeNumber = iota // nothing yet
	afterZero           // its integer part is 0: no digit may follow
	inInteger
	afterPoint // no digit of the fraction yet
	inFraction
	inZeros // in a fraction whose last digit is 0: it may not end so
)

// multiple is Builder.Multiple.
func (b *numbers) multiple(n int64, digits int, fraction bool) Expr {
	left := int32(digits)
	if !fraction {
		// The integers among the multiples of n/10^digits are the multiples of n/gcd(n, 10^digits).
		g := new(big.Int).GCD(nil, nil, big.NewInt(n), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil))
		n /= g.Int64()
		left = -1
	}
	b.divisors = append(b.divisors, divisor{n, max(left, 0)})
	return b.rest(int32(len(b.divisors)-1), 0, beforeNumber, left)
}

// rest is the rest of a number whose digits so far leave a remainder. left counts the digits of the fraction that
// the divisor still sees; it is negative if there may be no fraction.
func (b *numbers) rest(d int32, remainder int64, phase, left int32) Expr {
	nullable := false
	if phase != beforeNumber && phase != afterPoint && phase != inZeros {
		modulus := b.divisors[d].modulus
		r := remainder
		for range left {
			r = r * 10 % modulus
		}
		nullable = r == 0
	}
	return b.intern(key{kindNumber, d, int32(remainder), phase, left}, nullable, true, false)
}

func (b *numbers) arcs(k key) []arc {
	d, r, phase, left := k.a, int64(k.b), k.c, k.d
	modulus := b.divisors[d].modulus
	var arcs []arc
	if (phase == afterZero || phase == inInteger) && left >= 0 {
		arcs = append(arcs, arc{'.', '.', b.rest(d, r, afterPoint, left)})
	}
	for digit := range int64(10) {
		to := Fail
		switch phase {
		case beforeNumber:
			to = b.rest(d, digit%modulus, inInteger, left)
			if digit == 0 {
				to = b.rest(d, 0, afterZero, left)
			}
		case inInteger:
			to = b.rest(d, (r*10+digit)%modulus, inInteger, left)
		case afterPoint, inFraction, inZeros:
			if left > 0 {
				after := int32(inFraction)
				if digit == 0 {
					after = inZeros
				}
				to = b.rest(d, (r*10+digit)%modulus, after, left-1)
			}
		}
		if to != Fail {
			arcs = appendArc(arcs, arc{byte('0' + digit), byte('0' + digit), to})
		}
	}
	return arcs
}
