Feature: An action is used once
  The first person who uses a sign-in link, a coupon, an approval or a licence
  gets its value. Everybody else is told how it ended.

  Scenario: A sign-in link signs in once
    Given a sign-in link for Anna
    When a visitor uses the link
    Then the visitor is signed in as Anna
    When another visitor uses the link
    Then the other visitor is told "used already"

  Scenario: Looking at a link does not use it up
    Mail filters open every link before its reader does. The page behind the
    link shows a button, and only the button signs in.

    Given a sign-in link for Anna
    When a link scanner opens the link 3 times
    Then it is shown a link that is good, and not whose it is
    When a visitor uses the link
    Then the visitor is signed in as Anna
    When a link scanner opens the link
    Then it is shown a link that was used

  Scenario: One of many visitors at the same moment gets in
    Given a sign-in link for Anna
    When 10 visitors use the link at the same moment
    Then one of them is signed in as Anna, and the others are told "used already"

  Scenario: A visitor who is not answered may ask again, and nobody else gets in
    Given a sign-in link for Anna
    And the answers to visitors are lost on the way
    When a visitor uses the link
    Then the visitor is told "no answer"
    When answers come through again
    And another visitor uses the link
    Then the other visitor is told "used already"
    When the visitor uses the link again
    Then the visitor is signed in as Anna
    When the visitor uses the link again
    Then the visitor is signed in as Anna

  Scenario Outline: A coupon for tomorrow is redeemed <day>
    Given a coupon over 10 euros for tomorrow
    When a customer redeems the coupon <day>
    Then the customer <answer>

    Examples:
      | day                    | answer                           |
      | today                  | is told "not valid yet"          |
      | tomorrow               | gets 10 euros off                |
      | the day after tomorrow | is told "not valid any more"     |

  Scenario: An order that comes to nothing has used its coupon
    Coupons are not kept with the orders, but where every shop can see them. A
    customer who was told that the coupon is good may rely on it, even if the
    order is rolled back. If the coupon came back then, two customers could use
    it: the next one, and the first one, who asks again. So only the first
    customer may order with it once more.

    Given a coupon over 10 euros
    And a customer ordered with the coupon, and the order came to nothing
    When another customer orders with the coupon
    Then the other customer is told "used already"
    And there is no order with the coupon
    When the customer orders with the coupon again
    Then the customer gets 10 euros off
    And there is one order with the coupon

  Scenario: A coupon that is bound to its order is given back with it
    Given a coupon over 10 euros
    And a customer made an order that the coupon is bound to, and the order came to nothing
    When another customer makes an order that the coupon is bound to
    Then the other customer gets 10 euros off
    And there is one order with the coupon
    When the customer makes an order that the coupon is bound to
    Then the customer is told "used already"
    And there is one order with the coupon

  Scenario: An approval is withdrawn before it was used
    Given an approval to spend 5000 euros
    When the manager withdraws the approval because "the budget is gone"
    Then the manager is told "withdrawn"
    When a buyer uses the approval
    Then the buyer is told "withdrawn"
    And the books say "withdrawn: the budget is gone"

  Scenario: An approval is withdrawn too late
    Given an approval to spend 5000 euros
    When a buyer uses the approval
    And the manager withdraws the approval because "the budget is gone"
    Then the manager is told "used already"
    And the buyer may spend 5000 euros
    And the books say "used by the buyer"

  Scenario: A licence is activated with its PIN
    Given a licence with the PIN "4711"
    When an owner activates the licence with the PIN "4711"
    Then the owner's licence is active
    When another owner activates the licence with the PIN "4711"
    Then the other owner is told "used already"

  Scenario: A wrong PIN leaves tries for the right one
    Given a licence with the PIN "4711"
    When an owner activates the licence without a PIN
    Then the owner is told "wrong PIN, 3 tries left"
    When the owner activates the licence with the PIN "1147"
    Then the owner is told "wrong PIN, 2 tries left"
    When the owner activates the licence with the PIN "7411"
    Then the owner is told "wrong PIN, 1 try left"
    When the owner activates the licence with the PIN "4711"
    Then the owner's licence is active

  Scenario: Too many wrong PINs lock a licence for good, even for the right one
    Given a licence with the PIN "4711"
    When a thief guesses 3 wrong PINs, one after the other
    Then the thief is told "wrong PIN, no tries left"
    When an owner activates the licence with the PIN "4711"
    Then the owner is told "locked"
    And the owner is told "locked" by the other service, too

  Scenario: Guesses at the same moment get no more tries
    Given a licence with the PIN "4711"
    When 12 thieves guess a wrong PIN at the same moment
    Then 3 of them are told that it was wrong, and the others "locked"
    When an owner activates the licence with the PIN "4711"
    Then the owner is told "locked"
