package automaton

import "math/big"

// divisor is what decimal numbers are a multiple of: of, in units of 10 to the power -digits.
type divisor struct {
	of     int64
	digits int32
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

// Multiple is the decimal numbers, without sign and exponent, that are multiples of n times 10 to the power -digits.
// n is from 1 to 1<<31 - 1. Numbers have a fraction only where fraction says so, which has no zero at its end.
func (b *Builder) Multiple(n int64, digits int, fraction bool) Expr {
	left := int32(digits)
	if !fraction {
		// The multiples of n/10^digits that are integers are those of n/gcd(n, 10^digits).
		g := new(big.Int).GCD(nil, nil, big.NewInt(n), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil))
		n /= g.Int64()
		left = -1
	}
	b.divisors = append(b.divisors, divisor{n, max(left, 0)})
	return b.number(int32(len(b.divisors)-1), 0, beforeNumber, left)
}

// number is the rest of a number whose digits so far leave a remainder. left counts the digits of the fraction that
// the divisor still sees; it is negative where there may be no fraction.
func (b *Builder) number(d int32, remainder int64, phase, left int32) Expr {
	nullable := false
	if phase != beforeNumber && phase != afterPoint && phase != inZeros {
		of := b.divisors[d].of
		r := remainder
		for range left {
			r = r * 10 % of
		}
		nullable = r == 0
	}
	return b.intern(key{kindNumber, d, int32(remainder), phase, left}, nullable, true, false)
}

func (b *Builder) numberArcs(k key) []arc {
	d, r, phase, left := k.a, int64(k.b), k.c, k.d
	of := b.divisors[d].of
	var arcs []arc
	if (phase == afterZero || phase == inInteger) && left >= 0 {
		arcs = append(arcs, arc{'.', '.', b.number(d, r, afterPoint, left)})
	}
	for digit := range int64(10) {
		to := Fail
		switch phase {
		case beforeNumber:
			to = b.number(d, digit%of, inInteger, left)
			if digit == 0 {
				to = b.number(d, 0, afterZero, left)
			}
		case inInteger:
			to = b.number(d, (r*10+digit)%of, inInteger, left)
		case afterPoint, inFraction, inZeros:
			if left > 0 {
				after := int32(inFraction)
				if digit == 0 {
					after = inZeros
				}
				to = b.number(d, (r*10+digit)%of, after, left-1)
			}
		}
		if to != Fail {
			arcs = appendArc(arcs, arc{byte('0' + digit), byte('0' + digit), to})
		}
	}
	return arcs
}
